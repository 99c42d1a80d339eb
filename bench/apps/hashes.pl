# SPDX-License-Identifier: BSD-3-Clause
# Hashes of arrays of strings, built, joined, split, sorted and dropped.
use strict;
use warnings;

my $total = 0;
for my $round (1 .. $ARGV[0]) {
    my (%lists, $state);
    $state = $round;
    for my $number (1 .. 60_000) {
        $state = ($state * 1103515245 + 12345) % 2147483648;
        push @{ $lists{ "key" . $state % 7919 } }, "value-$number-" . "x" x ($state % 40);
    }
    for my $key (sort keys %lists) {
        my $joined = join ",", @{ $lists{$key} };
        my @parts = split /,/, $joined;
        $total += length($joined) + @parts;
        delete $lists{$key} if @parts % 3 == 0;
    }
    $total += keys %lists;
}
print "$total\n";
