# Windrow as a Conan package, made of this checkout: `conan create .` (`make test-conan` does it and uses the package).
# What Windrow needs comes from the system's packages, not from Conan's: they are what it is tested with.
import re
from pathlib import Path

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load
from conan.tools.system.package_manager import Apt

NEEDS = ["libhwy-dev", "libfmt-dev", "nlohmann-json3-dev", "zlib1g-dev"]


class Windrow(ConanFile):
    name = "windrow"
    license = "Apache-2.0"
    description = "A training engine that compiles a whole training step into a static plan"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "targets": ["all", "native"]}
    default_options = {"shared": False, "fPIC": True, "targets": "all"}
    implements = ["auto_shared_fpic"]
    exports = "CMakeLists.txt"  # the version is read from it
    exports_sources = "CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*"
    test_package_folder = "tests/consumer"

    def set_version(self):
        text = load(self, Path(self.recipe_folder) / "CMakeLists.txt")
        self.version = re.search(r"project\(windrow\s+VERSION\s+([0-9.]+)", text).group(1)

    def validate(self):
        check_min_cppstd(self, 20)

    def system_requirements(self):
        Apt(self).install(NEEDS)  # names them where they are missing, unless tools.system.package_manager:mode=install

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["WINDROW_BUILD_TESTS"] = False
        toolchain.cache_variables["WINDROW_BUILD_PROGRAM"] = False
        toolchain.cache_variables["WINDROW_BUILD_EXAMPLES"] = False
        toolchain.cache_variables["WINDROW_LIBXSMM"] = False  # a package does not depend on what this machine happens to have
        toolchain.cache_variables["WINDROW_WERROR"] = False
        toolchain.cache_variables["WINDROW_INSTALL"] = True
        toolchain.cache_variables["WINDROW_TARGETS"] = str(self.options.targets)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")
        CMake(self).install()

    def package_info(self):
        # find_package(windrow) finds the file that Windrow itself installs.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/windrow"]
        self.cpp_info.libs = ["windrow"]
        self.cpp_info.system_libs = ["hwy", "fmt", "z", "pthread"]
