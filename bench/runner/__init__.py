# SPDX-License-Identifier: BSD-3-Clause
"""Measures this project's allocator beside others and reports what came out.

Read the files in this order: peers (the allocators), programs and apps and memory (the rows),
process (one measured process), comparison (rounds of processes), statistics and summary (the
results), report and plots (their output), documents (the generated parts of documents), cli (the
command). For the comparison of two revisions read verdict, machine_state, instructions, build, referee,
compare (the command).
"""
