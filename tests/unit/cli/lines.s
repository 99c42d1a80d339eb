/* SPDX-License-Identifier: BSD-3-Clause */
/* A library for symbolizer_test.cc. Its debug information has one unit with the functions `first` and
   `last`; `between` and `after` belong to no unit. The last row of the line table for `first` is at
   its end, as after the cold parts of functions of GCC. The first 16 bytes of `last` have no row. */
        .file 1 "lines.c"

        .section .text.a, "ax", %progbits
        .globl first
        .type first, %function
first:
        .loc 1 10
        nop
        .loc 1 11
        nop
        .loc 1 12
        .loc 1 13
.Lfirst_end:
        .size first, .Lfirst_end - first

        .section .text.b, "ax", %progbits
        .globl between
        .type between, %function
between:
        .skip 64
        .size between, 64

        .section .text.c, "ax", %progbits
        .globl last
        .type last, %function
last:
        .skip 16
        .loc 1 20
        nop
        nop
.Llast_end:
        .size last, .Llast_end - last
        .globl after
        .type after, %function
        .section .text.d, "ax", %progbits
after:
        .skip 64
        .size after, 64

        .section .debug_abbrev, "", %progbits
.Labbreviations:
        .uleb128 1, 0x11        /* DW_TAG_compile_unit */
        .byte 1
        .uleb128 0x03, 0x08     /* DW_AT_name, DW_FORM_string */
        .uleb128 0x10, 0x17     /* DW_AT_stmt_list, DW_FORM_sec_offset */
        .uleb128 0x55, 0x17     /* DW_AT_ranges, DW_FORM_sec_offset */
        .uleb128 0x11, 0x01     /* DW_AT_low_pc, DW_FORM_addr */
        .uleb128 0, 0
        .uleb128 2, 0x2e        /* DW_TAG_subprogram */
        .byte 0
        .uleb128 0x03, 0x08
        .uleb128 0x11, 0x01
        .uleb128 0x12, 0x07     /* DW_AT_high_pc, DW_FORM_data8 */
        .uleb128 0, 0
        .uleb128 0

        .section .debug_info, "", %progbits
.Lunit:
        .4byte .Lunit_end - .Lunit_start
.Lunit_start:
        .2byte 4
        .4byte .Labbreviations
        .byte 8
        .uleb128 1
        .asciz "lines.c"
        .4byte .Lline
        .4byte .Lranges
        .8byte 0
        .uleb128 2
        .asciz "first"
        .8byte first
        .8byte .Lfirst_end - first
        .uleb128 2
        .asciz "last"
        .8byte last
        .8byte .Llast_end - last
        .uleb128 0
.Lunit_end:

        .section .debug_line, "", %progbits
.Lline:

        .section .debug_ranges, "", %progbits
.Lranges:
        .8byte first, .Lfirst_end
        .8byte last, .Llast_end
        .8byte 0, 0

        .section .debug_aranges, "", %progbits
        .4byte .Laranges_end - .Laranges
.Laranges:
        .2byte 2
        .4byte .Lunit
        .byte 8, 0
        .4byte 0
        .8byte first, .Lfirst_end - first
        .8byte last, .Llast_end - last
        .8byte 0, 0
.Laranges_end:
