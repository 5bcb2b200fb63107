# embed.cmake: writes files into C arrays. Run as a script:
#   cmake -D OUTPUT=bundle.gen.c -D ROOT=<templates> -D EXTRA=<files beside> -D ENGINE=<engine.lua>
#         -D SANDBOX=<sandbox.lua> -P embed.cmake
# Names are paths below ROOT; files in EXTRA have their base name.

function(bytes_of variable file)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "((0x..,){20})" "\\1\n" bytes "${bytes}")
  set(${variable} "${bytes}0" PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/*.lua ${ROOT}/*.h)
set(named "")
foreach(file ${files})
  list(APPEND named "${file}|${ROOT}/${file}")
endforeach()
string(REPLACE "," ";" extra "${EXTRA}")
foreach(file ${extra})
  get_filename_component(name ${file} NAME)
  list(APPEND named "${name}|${file}")
endforeach()
list(SORT named)

set(arrays "")
set(table "")
set(index 0)
foreach(pair ${named})
  string(REGEX MATCH "^([^|]*)[|](.*)$" unused ${pair})
  set(name ${CMAKE_MATCH_1})
  bytes_of(bytes ${CMAKE_MATCH_2})
  string(APPEND arrays "static const char file_${index}[] = {\n${bytes}};\n")
  string(APPEND table "    {\"${name}\", file_${index}, sizeof file_${index} - 1},\n")
  math(EXPR index "${index} + 1")
endforeach()
bytes_of(engine ${ENGINE})
bytes_of(sandbox ${SANDBOX})

file(WRITE ${OUTPUT}.new "/* Written by embed.cmake. */
#include \"bundle.h\"

${arrays}
const bundle_file bundle_embedded[] = {
${table}};
const size_t bundle_embedded_count = ${index};

extern const char engine_source[], sandbox_source[];
extern const size_t engine_source_bytes, sandbox_source_bytes;
const char engine_source[] = {
${engine}};
const size_t engine_source_bytes = sizeof engine_source - 1;
const char sandbox_source[] = {
${sandbox}};
const size_t sandbox_source_bytes = sizeof sandbox_source - 1;
")
file(RENAME ${OUTPUT}.new ${OUTPUT})
