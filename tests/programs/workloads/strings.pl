# SPDX-License-Identifier: BSD-3-Clause
# Strings, hashes, sorting and regular expressions. The output depends on
# nothing but this file.
use strict;
use warnings;
use Digest::SHA qw(sha256_hex);

my $seed = 20240611;
sub random { $seed = ($seed * 1103515245 + 12345) & 0x7fffffff; return $seed % $_[0]; }
sub word { my $n = 1 + random($_[0]); return join '', map { chr(97 + random(26)) } 1 .. $n; }

# Puts words into a hash of counts and one of positions; deletes and reinserts them.
my (%count, %where);
my @words = map { word(12) } 1 .. 60_000;
for my $i (0 .. $#words) {
    $count{ $words[$i] }++;
    push @{ $where{ substr $words[$i], 0, 3 } }, $i;
}
delete @count{ @words[ grep { $_ % 3 == 0 } 0 .. $#words ] };
$count{$_} .= "/again" for @words[ 0 .. 20_000 ];
printf "words %d, prefixes %d, %s\n", scalar keys %count, scalar keys %where,
    sha256_hex(join ',', map { "$_=" . length $count{$_} } sort keys %count);

# Sorting by several keys.
my @sorted = sort { length $a <=> length $b or reverse($a) cmp reverse($b) } @words;
print "sorted ", sha256_hex("@sorted"), "\n";

# Strings that grow one piece at a time, shrink, and are taken apart: realloc at every size.
my $text = '';
for my $i (1 .. 40_000) {
    $text .= $words[ random(scalar @words) ] . ($i % 17 ? ' ' : "\n");
    substr($text, random(length $text), 2) = word(5) if $i % 5 == 0;
}
print "text ", length $text, ' ', sha256_hex($text), "\n";
my @lines = split /\n/, $text;
print "line $_: ", sha256_hex($lines[$_]), "\n" for map { $_ * 97 % @lines } 1 .. 20;

# Regular expressions with captures, global substitution, Unicode.
my $hits = 0;
while ($text =~ /\b(\w)(\w*)\1\b/g) { $hits += length $2; }
(my $swapped = $text) =~ s/\b(\w+) (\w+)\b/$2 $1/g;
(my $wide = substr $text, 0, 200_000) =~ tr/a-z/\x{3b1}-\x{3c9}/;
print "hits $hits ", sha256_hex($swapped), ' ', length($wide);
utf8::encode($wide);
print ' ', sha256_hex($wide), "\n";

# A large buffer, doubled up to 16 MiB and cut back.
my $buffer = 'abcdefgh';
$buffer .= $buffer while length $buffer < 16 << 20;
substr($buffer, 5 << 20) = '';
print "buffer ", length $buffer, ' ', sha256_hex($buffer), "\n";

# Fork with a pipe: the child allocates, too.
pipe my $reader, my $writer or die "pipe: $!";
my $child = fork // die "fork: $!";
if (!$child) {
    close $reader;
    my %kept = map { $_ => word(400) } 1 .. 2_000;
    $kept{ 1 + random(2_000) } .= word(900) for 1 .. 2_000;
    print $writer sha256_hex(join '|', map { $kept{$_} } 1 .. 2_000);
    close $writer;
    exit 0;
}
close $writer;
my $answer = <$reader>;
waitpid $child, 0;
print "child $answer status $?\n";
print STDERR "last words\n";
