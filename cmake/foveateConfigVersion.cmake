# The version of the reader for `find_package(foveate 0.1)`: the one that the header next to this package says.
#
# Before 1.0 a new minor version may break what used the one before, as in Rust's Cargo; from then on a new major version.

set(PACKAGE_VERSION "unknown")
foreach(foveate_folder ../include ../../../include)
    set(foveate_header "${CMAKE_CURRENT_LIST_DIR}/${foveate_folder}/foveate.h")
    if(EXISTS "${foveate_header}")
        file(STRINGS "${foveate_header}" foveate_line REGEX "^#define FOVEATE_HEADER_VERSION ")
        string(REGEX REPLACE ".*\"(.*)\".*" "\\1" PACKAGE_VERSION "${foveate_line}")
        break()
    endif()
endforeach()

set(PACKAGE_VERSION_COMPATIBLE FALSE)
set(PACKAGE_VERSION_EXACT FALSE)
if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
elseif(PACKAGE_VERSION VERSION_GREATER PACKAGE_FIND_VERSION)
    # What the two must have in common.
    string(REGEX MATCH "^(0\\.)?[0-9]+" foveate_offered "${PACKAGE_VERSION}")
    string(REGEX MATCH "^(0\\.)?[0-9]+" foveate_asked "${PACKAGE_FIND_VERSION}")
    if(foveate_offered VERSION_EQUAL foveate_asked)
        set(PACKAGE_VERSION_COMPATIBLE TRUE)
    endif()
endif()
