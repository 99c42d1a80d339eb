# Holds 20 MB, and keeps running.
my @list = map { "x" x 100 } 1 .. 2e5;
$| = 1;
print "ready\n";
sleep;
