# SPDX-License-Identifier: BSD-3-Clause
"""Measures this project's allocator beside others and reports what came out.

Reading order: peers (who is measured), programs and apps and memory (what is measured),
process (one measured process), comparison (rounds of them), statistics and summary (what the
figures say), report and plots (how they are shown), documents (what is made of them), cli (the
command). For the comparison of two revisions: verdict, machine_state, instructions, build, referee,
compare (the command).
"""
