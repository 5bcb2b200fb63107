-- engine.lua: the template language; sandbox.lua has what templates and modules run in.
--
-- A line whose first character is % is Lua; ${expr} substitutes; every other line is text. One
-- template line becomes one of Lua, so that Lua's own messages carry the template's line number.
--   ${expr} alone on its line: a value of several lines is indented to that column, an empty one
--     removes the line. Elsewhere a value is one line. nil is an error.
--   include "path"       renders another template in place.
--   paste "path"         the lines of a file as they are, as a value for ${}.
--   capture(f, ...)      the lines that f prints, as a value for ${}: a macro at any column.
--   require "a.b"        the Lua module a/b.lua.
--   refuse(message)      in a module: an error in the name of the file that called the module.
--   unsupported(message) an error that is this version's limit and nobody's fault.
-- The host gives read(name) -> text, path or nil, message; position() -> "file:line: " of the
-- template or module that runs; of its caller with true; of the definition with a function; of a
-- file's own code with its name, or nil; limit(message), which raises FA_UNSUPPORTED; and the chunk
-- of sandbox.lua.
-- Nothing else here can reach a file, a clock or an address.

local read, position, limit, sandbox = ...

local engine = {}
local raw_error, raw_tostring, raw_format = error, tostring, string.format
-- The methods of strings are the sandbox's; these take any text, in a time linear in its length.
local find, match, sub = string.find, string.match, string.sub
local gmatch, gsub = string.gmatch, string.gsub

local function complain(message) raw_error(position() .. message, 0) end

-- ---- Output -----------------------------------------------------------------------------------

local lines = {} -- { text = , origin = } of the text being rendered
local block = {} -- metatable of what capture returns

local function put(text, origin) lines[#lines + 1] = { text = text, origin = origin } end

-- The C spelling of a value: whole numbers as they are, others as float literals.
local function spell(value)
  if math.type(value) == "integer" then return raw_format("%d", value) end
  if type(value) == "number" then
    if value ~= value or value == math.huge or value == -math.huge then
      complain("no literal for the number " .. raw_tostring(value))
    end
    local text = raw_format("%.9g", value)
    if not find(text, "[.e]") then text = text .. ".0" end
    return text .. "f"
  end
  return value
end

local function put_block(indent, value, origin)
  if type(value) == "string" then
    for line in gmatch(value .. "\n", "(.-)\n") do
      if value ~= "" then put(line == "" and "" or indent .. line, origin) end
    end
  else
    for _, line in ipairs(value) do
      put(line.text == "" and "" or indent .. line.text, line.origin)
    end
  end
end

-- Prints one template line: literal text and values in turn.
local function print_line(origin, ...)
  local parts, count = { ... }, select("#", ...)
  for i = 2, count, 2 do
    local value = spell(parts[i])
    if type(value) ~= "string" and getmetatable(value) ~= block then
      complain("a ${} on this line is " .. (value == nil and "nil" or "a " .. type(value)))
    end
    parts[i] = value
  end
  if count == 3 and find(parts[1], "^%s*$") and find(parts[3], "^%s*$") then
    return put_block(parts[1], parts[2], origin)
  end
  for i = 2, count, 2 do
    if type(parts[i]) ~= "string" or find(parts[i], "\n") then
      complain("a value of several lines needs a line of its own")
    end
  end
  put(table.concat(parts), origin)
end

local function capture(f, ...)
  local outer = lines
  lines = {}
  f(...)
  local captured = setmetatable(lines, block)
  lines = outer
  return captured
end

-- ---- Template to Lua ---------------------------------------------------------------------------

-- The position of the } that closes the ${ whose text begins at `from`.
local function closing_brace(line, from)
  local depth = 1
  for at, brace in gmatch(line, "()([{}])", from) do
    depth = depth + (brace == "{" and 1 or -1)
    if depth == 0 then return at end
  end
end

local function translate_text(line, number)
  local parts, at = {}, 1
  while true do
    local open = find(line, "${", at, true)
    parts[#parts + 1] = raw_format("%q", sub(line, at, open and open - 1 or #line))
    if not open then break end
    local close = closing_brace(line, open + 2)
    if not close then return nil, number .. ": ${ without }" end
    parts[#parts + 1] = "(" .. sub(line, open + 2, close - 1) .. ")"
    at = close + 1
  end
  return raw_format("print_line(origins[%d], %s)", number, table.concat(parts, ", "))
end

local function translate(text, path)
  local lua, origins, number = {}, {}, 0
  for line in gmatch(gsub(text, "\n$", ""), "([^\n]*)\n?") do
    number = number + 1
    origins[number] = path .. ":" .. number
    if sub(line, 1, 1) == "%" then
      lua[number] = sub(line, 2)
    else
      local translated, message = translate_text(line, number)
      if not translated then raw_error(path .. ":" .. message, 0) end
      lua[number] = translated
    end
  end
  return table.concat(lua, "\n"), origins
end

-- ---- The sandbox -------------------------------------------------------------------------------

local base = sandbox(complain)
base.capture, base.unsupported = capture, limit

-- What the code of a file sees: `names`, then the sandbox. It can assign neither.
local function environment_of(names)
  return setmetatable({}, {
    __index = function(_, key)
      local value = names[key]
      if value == nil then value = base[key] end
      if value == nil then complain("undefined name '" .. raw_tostring(key) .. "'") end
      return value
    end,
    __newindex = function(_, key)
      complain("global '" .. raw_tostring(key) .. "' assigned: make it local")
    end,
    __metatable = "sandbox",
  })
end

local function read_text(file)
  local text, path = read(file)
  if not text then complain(path) end
  return text, path
end

local function run(lua, path, names)
  local chunk, message = load(lua, "@" .. path, "t", environment_of(names))
  if not chunk then raw_error(message, 0) end
  return chunk()
end

local loaded = {}
function base.require(name)
  if loaded[name] == nil then
    local text, path = read_text(gsub(name, "%.", "/") .. ".lua")
    loaded[name] = false -- a cycle finds this
    loaded[name] = run(text, path, {})
  end
  if not loaded[name] then
    complain("module '" .. name .. "' requires itself or returns nothing")
  end
  return loaded[name]
end

local including = {}
function base.include(file)
  if including[file] then complain("template '" .. file .. "' includes itself") end
  local text, path = read_text(file)
  local lua, origins = translate(text, path)
  including[file] = true
  run(lua, path, { print_line = print_line, origins = origins })
  including[file] = nil
end

-- A file pasted as it is, such as a header.
function base.paste(file)
  local text, path = read_text(file)
  local pasted, number = setmetatable({}, block), 0
  for line in gmatch(gsub(text, "\n$", ""), "([^\n]*)\n?") do
    number = number + 1
    pasted[number] = { text = line, origin = path .. ":" .. number }
  end
  return pasted
end

-- Lua forgets the line of `return le(a, b)` when it calls le. So while a variant's code runs,
-- `running` holds its file, and what a message begins with when that file is not on the stack.
local running

local function run_as(file, at, f, ...)
  running = { file = file, at = at }
  local result = f(...)
  running = nil
  return result
end

-- For modules: complains about what the file that called the module did.
function base.refuse(message)
  local at = running and (position(running.file) or running.at) or position(true)
  raw_error(at .. message, 0)
end

-- For modules: the line of the variant's file that is running; nil where Lua has forgotten it.
function base.line_of_variant()
  local at = running and position(running.file)
  return at and tonumber(match(at, ":(%d+): $"))
end

-- f, with what it returns handed on to `finish`, blamed on f's own file and line.
local function located(f, finish)
  local at = position(f)
  local function finished(...) return finish(f(...)) end
  return function(...) return run_as(match(at, "^(.*):%d+: $"), at, finished, ...) end
end

-- A variant file sees the words of expressions too. Each is run once.
local variants = {}
function base.load_variant(name)
  if variants[name] then return variants[name] end
  local variant = base.require("variant")
  local text, path = read_text("variants/" .. name .. ".lua")
  variant.check_text(text, path)
  local found = run_as(path, path .. ": ", run, text, path, variant.words)
  if getmetatable(found) ~= variant.type then
    raw_error(path .. ": must return variant { ... }", 0)
  end
  variant.locate_words(found.params, text)
  for _, what in ipairs { "keep", "score", "sink" } do
    found[what] = found[what] and located(found[what], function(value)
      return variant.returned(value, what)
    end)
  end
  variants[name] = found
  return found
end

-- ---- Rendering ---------------------------------------------------------------------------------

-- No line ends in blanks, no two blank lines follow each other, none opens or closes a block.
local function tidy(printed)
  local kept = {}
  for i, line in ipairs(printed) do
    local text = match(line.text, "^.*%S") or ""
    local before = #kept > 0 and kept[#kept].text or "{"
    local following = printed[i + 1] and printed[i + 1].text or "}"
    local idle = text == "" and (before == "" or find(before, "{$") or find(following, "^%s*}"))
    if not idle then kept[#kept + 1] = { text = text, origin = line.origin } end
  end
  return kept
end

local function render(file)
  return tidy(capture(base.include, file))
end

local function as_text(printed)
  local text, origins = {}, {}
  for i, line in ipairs(printed) do
    text[i], origins[i] = line.text, line.origin
  end
  text[#text + 1] = ""
  return { text = table.concat(text, "\n"), origins = origins }
end

-- Renders both texts of a spec: see render.h for what comes back.
function engine.render(spec)
  base.spec = spec
  local tiles = base.require(spec.target .. ".tiles")
  base.tiles = tiles
  local mask, score = base.require("mask"), base.require("score")
  local ending = spec.target == "cpu" and ".c.lua" or ".cu.lua"
  return {
    kernel = as_text(render(spec.target .. "/" .. spec.pass .. ending)),
    launch = as_text(render("launch.c.lua")),
    facts = tiles.facts,
    keep = mask.postfix(),
    score = score.postfix(),
    sink = score.sink_postfix(),
    params = base.require("params").text(),
  }
end

function engine.variant_doc(name)
  return base.load_variant(name).doc
end

return engine
