# SPDX-License-Identifier: BSD-3-Clause
"""Conan's recipe: `conan create .` builds a package of this folder.

The targets that a CMake project gets from it have the names that an installed library gives them:
tcmalloc::tcmalloc, tcmalloc::tcmalloc_minimal and their debug libraries (tcmalloc::tcmalloc_debug), each of the kind that the option "shared" says.
"""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rm, rmdir

required_conan_version = ">=2.0"


class TcmallocRecipe(ConanFile):
    name = "tcmalloc"
    description = "Thread-caching malloc: takes the place of the C library's allocator"
    license = "BSD-3-Clause"
    topics = ("malloc", "allocator", "memory")
    package_type = "library"
    languages = "C++", "C"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": True}
    exports_sources = ("CMakeLists.txt", "LICENSE", "include/*", "packaging/*", "src/*", "instruments/*", "formats/*", "!packaging/rust/*", "!packaging/python/*")

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, "CMakeLists.txt"))
        self.version = re.search(r"project\(tcmalloc VERSION ([\d.]+)", text).group(1)

    def configure(self):
        # The library needs no C++ library: programs built with any use the same package.
        self.settings.rm_safe("compiler.libcxx")
        self.settings.rm_safe("compiler.cppstd")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("tcmalloc is for Linux")

    def build_id(self):
        self.info_build.options.shared = "any"  # One build makes both kinds.

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        # Conan's presets in the folder of the sources would hide those of CMakePresets.json.
        toolchain.user_presets_path = False
        toolchain.cache_variables["TCMALLOC_COMMAND"] = False
        toolchain.cache_variables["TCMALLOC_TESTS"] = False
        toolchain.cache_variables["TCMALLOC_BENCH"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        rm(self, "*.a" if self.options.shared else "*.so*",
           os.path.join(self.package_folder, "lib"))
        # Conan writes its own for whoever uses the package.
        rmdir(self, os.path.join(self.package_folder, "lib", "cmake"))
        rmdir(self, os.path.join(self.package_folder, "lib", "pkgconfig"))

    def package_info(self):
        # Conan's name for all components at once would be that of one of them.
        self.cpp_info.set_property("cmake_target_name", "tcmalloc::both")
        for name in ("tcmalloc", "tcmalloc_minimal", "tcmalloc_debug", "tcmalloc_minimal_debug"):
            component = self.cpp_info.components[name]
            component.libs = [name]
            component.set_property("cmake_target_name", f"tcmalloc::{name}")
            component.set_property("pkg_config_name", f"lib{name}")
            # Our malloc, also in programs in which nothing but the C library calls it.
            if self.options.shared:
                component.exelinkflags = ["-Wl,--no-as-needed"]
            else:
                component.exelinkflags = ["-Wl,--undefined=malloc"]
                component.system_libs = ["pthread"]
            component.sharedlinkflags = component.exelinkflags
