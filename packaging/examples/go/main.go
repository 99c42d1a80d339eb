// SPDX-License-Identifier: BSD-3-Clause

// Buffers of C in a program of Go: they are TCMalloc's. Go's own objects are not.
package main

/*
#cgo pkg-config: libtcmalloc_minimal
#include <stdlib.h>
#include <tcmalloc/tcmalloc.h>
*/
import "C"

import (
	"fmt"
	"unsafe"
)

func property(name string) int {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var value C.size_t
	if C.tcmalloc_get_numeric_property(text, &value) == 0 {
		panic("no property " + name)
	}
	return int(value)
}

func main() {
	before := property("generic.current_allocated_bytes")
	buffers := make([]unsafe.Pointer, 100)
	for i := range buffers {
		buffers[i] = C.malloc(1 << 20)
	}
	held := property("generic.current_allocated_bytes") - before
	for _, buffer := range buffers {
		C.free(buffer)
	}
	C.tcmalloc_release_free_memory()
	fmt.Printf("TCMalloc %s held %d MiB of buffers\n", C.GoString(C.tcmalloc_version()), held>>20)
}
