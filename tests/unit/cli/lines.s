/* SPDX-License-Identifier: BSD-3-Clause */
/* A library for symbolizer_test.cc. Its debug information has one unit with the functions `first` and
   `last`; `between` and `after` belong to no unit. The last row of the line table for `first` is at
   its end, as after the cold parts of functions of GCC. The first 16 bytes of `last` have no row. */
        .file 1 "lines.c"

        .macro function name
        .section .text.\name, "ax", %progbits
        .globl \name
        .type \name, %function
\name:
        .endm

        function first
        .loc 1 10
        nop
        .loc 1 11
        nop
        .loc 1 12
        .loc 1 13
.Lfirst_end:
        .size first, .Lfirst_end - first

        function between
        .skip 64
        .size between, 64

        function last
        .skip 16
        .loc 1 20
        nop
        nop
.Llast_end:
        .size last, .Llast_end - last

        function after
        .skip 64
        .size after, 64

        .section .debug_abbrev, "", %progbits
.Labbreviations:
        .uleb128 1, 0x11        /* DW_TAG_compile_unit */
        .byte 1
        .uleb128 0x03, 0x08, 0x10, 0x17, 0x55, 0x17, 0x11, 0x01, 0, 0  /* DW_AT_name, _stmt_list, _ranges, _low_pc */
        .uleb128 2, 0x2e        /* DW_TAG_subprogram */
        .byte 0
        .uleb128 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0, 0  /* DW_AT_name, _low_pc, _high_pc (DW_FORM_data8) */

        .section .debug_info, "", %progbits
.Lunit:
        .4byte .Lunit_end - .Lunit_start
.Lunit_start:
        .2byte 4
        .4byte .Labbreviations
        .byte 8
        .uleb128 1
        .asciz "lines.c"
        .4byte .Lline, .Lranges
        .8byte 0
        .uleb128 2
        .asciz "first"
        .8byte first, .Lfirst_end - first
        .uleb128 2
        .asciz "last"
        .8byte last, .Llast_end - last
        .uleb128 0
.Lunit_end:

        .section .debug_line, "", %progbits
.Lline:

        .section .debug_ranges, "", %progbits
.Lranges:
        .8byte first, .Lfirst_end, last, .Llast_end, 0, 0

        .section .debug_aranges, "", %progbits
        .4byte .Laranges_end - .Laranges
.Laranges:
        .2byte 2
        .4byte .Lunit
        .byte 8, 0
        .4byte 0
        .8byte first, .Lfirst_end - first, last, .Llast_end - last, 0, 0
.Laranges_end:
