# The C and C++ reader as the interface target `foveate::reader`: headers, nothing to link.
#
# Works from the source tree (cmake/) and from where it is installed (PREFIX/lib/cmake/foveate/).

find_path(foveate_INCLUDE_DIR foveate.h
    HINTS "${CMAKE_CURRENT_LIST_DIR}/../include" "${CMAKE_CURRENT_LIST_DIR}/../../../include"
    NO_DEFAULT_PATH)
mark_as_advanced(foveate_INCLUDE_DIR)

if(NOT foveate_INCLUDE_DIR)
    set(foveate_FOUND FALSE)
    set(foveate_NOT_FOUND_MESSAGE "foveate.h lies neither in ../include nor in ../../../include of ${CMAKE_CURRENT_LIST_DIR}")
    return()
endif()

if(NOT TARGET foveate::reader)
    add_library(foveate::reader INTERFACE IMPORTED)
    set_target_properties(foveate::reader PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${foveate_INCLUDE_DIR}")
endif()
