# static_archives.cmake: libtcc and Lua as archives that can go inside a shared library.
#
# Debian builds both archives for programs, not for shared libraries: they refer directly to data of libc,
# which the linker refuses. Copies with those few symbols renamed, and defined by runtime/host_symbols.c,
# link. The copy of libtcc also has runtime/tcc_host.c in the place of what could harm the process, and its
# variables in a section of their own.

find_program(FAGEN_OBJCOPY objcopy REQUIRED)
find_library(FAGEN_TCC_ARCHIVE libtcc.a REQUIRED)
find_path(FAGEN_TCC_INCLUDE libtcc.h REQUIRED)
find_library(FAGEN_LUA_ARCHIVE NAMES liblua5.4.a REQUIRED)
find_path(FAGEN_LUA_INCLUDE lua.h PATH_SUFFIXES lua5.4 REQUIRED)

add_library(fagen_host STATIC runtime/host_symbols.c runtime/tcc_host.c)

# add_renamed_archive(target archive objcopy-option-or-symbol...)
function(add_renamed_archive target archive)
  set(copy ${CMAKE_BINARY_DIR}/archives/${target}.a)
  set(renames "")
  foreach(symbol ${ARGN})
    if(symbol MATCHES "^--")
      list(APPEND renames ${symbol})
    else()
      list(APPEND renames --redefine-sym ${symbol}=fagen_${symbol})
    endif()
  endforeach()
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/archives)
  add_custom_command(OUTPUT ${copy} COMMAND ${FAGEN_OBJCOPY} ${renames} ${archive} ${copy}
                     DEPENDS ${archive} VERBATIM)
  add_custom_target(${target}_archive DEPENDS ${copy})
  add_library(${target} STATIC IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${copy}
                        INTERFACE_LINK_LIBRARIES "fagen_host;m")
  add_dependencies(${target} ${target}_archive)
endfunction()

add_renamed_archive(fagen_tcc ${FAGEN_TCC_ARCHIVE} --rename-section=.bss=fagen_tcc_bss
                    stdout stderr environ mprotect exit open malloc calloc realloc free)
add_renamed_archive(fagen_lua ${FAGEN_LUA_ARCHIVE} stdin stdout stderr)
