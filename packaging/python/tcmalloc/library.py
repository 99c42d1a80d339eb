# SPDX-License-Identifier: BSD-3-Clause
"""The functions of libtcmalloc in this process, by ctypes."""

import ctypes
import pathlib

NATIVE = pathlib.Path(__file__).resolve().parent / "native"
PATH = NATIVE / "libtcmalloc.so.4"


class Error(RuntimeError):
    """Something that the library or the tcmalloc command could not do."""


class NotLoaded(Error):
    """This process runs on another allocator."""


_PROPERTY_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p)
_size, _int, _pointer, _text = ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p
# Name -> type of the result, types of the arguments.
_FUNCTIONS = {
    "tcmalloc_stats_text": (_size, _int, _text, _size),
    "tcmalloc_stats_json": (_size, _text, _size),
    "tcmalloc_stats_openmetrics": (_size, _text, _size),
    "tcmalloc_get_numeric_property": (_int, _text, ctypes.POINTER(_size)),
    "tcmalloc_set_numeric_property": (_int, _text, _size),
    "tcmalloc_list_numeric_properties": (None, _PROPERTY_CALLBACK, _pointer),
    "tcmalloc_flush_thread_caches": (_size,),
    "tcmalloc_flush_this_thread_cache": (_size,),
    "tcmalloc_release_free_memory": (_size,),
    "tcmalloc_get_profile_sampling_interval": (_size,),
    "tcmalloc_set_profile_sampling_interval": (None, _size),
    "tcmalloc_start_allocation_profiling": (_int,),
    "tcmalloc_stop_allocation_profiling": (_pointer,),
    "tcmalloc_profile_free": (None, _pointer),
}
_loaded = None


def is_loaded():
    """Whether this process runs on libtcmalloc."""
    return hasattr(ctypes.CDLL(None), "tcmalloc_profile_snapshot")


def functions():
    """The library, with the types of its functions. Raises NotLoaded."""
    global _loaded
    if _loaded is None:
        if not is_loaded():
            raise NotLoaded("this process does not run on libtcmalloc: start it with python -m tcmalloc run SCRIPT")
        library = ctypes.CDLL(None)
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        _loaded = library
    return _loaded


def text_of(write):
    """The text of a function that fills a buffer as snprintf does."""
    size = 1 << 17
    while True:
        buffer = ctypes.create_string_buffer(size)
        length = write(buffer, size)
        if length < size:
            return buffer.raw[:length].decode(errors="replace")
        size = 2 * length


def get_property(name):
    """The value of a figure or setting by its name (docs/properties.md). Raises KeyError."""
    value = ctypes.c_size_t()
    if not functions().tcmalloc_get_numeric_property(name.encode(), ctypes.byref(value)):
        raise KeyError(f"TCMalloc has no property {name}")
    return value.value


def set_property(name, value):
    """Sets a property. Raises KeyError, and Error if it cannot be set, or not to this value."""
    if not functions().tcmalloc_set_numeric_property(name.encode(), value):
        get_property(name)
        raise Error(f"TCMalloc's property {name} cannot be set to {value}")


def properties():
    """All properties, of one moment."""
    found = {}

    @_PROPERTY_CALLBACK
    def add(name, value, _):
        found[name.decode()] = value
    functions().tcmalloc_list_numeric_properties(add, None)
    return found


def release_free_memory():
    """Releases all free pages to the OS; returns the bytes released."""
    return functions().tcmalloc_release_free_memory()


def trim():
    """Flushes all caches and releases all free memory to the OS. Returns whether it released anything."""
    return bool(functions().malloc_trim(0))


def flush_this_thread_cache():
    """Moves the objects in this thread's cache to the central free lists; returns their bytes."""
    return functions().tcmalloc_flush_this_thread_cache()


def flush_all_thread_caches():
    """Moves the objects in the caches of all threads to the central free lists; returns their bytes."""
    return functions().tcmalloc_flush_thread_caches()
