-- sandbox.lua: what templates and modules have of Lua's libraries.
--
-- The host stops a template after so many instructions, so much time and so much memory, but it can
-- count and look at the clock only between instructions. So nothing here can take long within one:
-- no pattern whose search could, no table that says a false length. Nothing runs where the host
-- cannot stop it (__gc), catches what stops it (pcall), or shows an address, which differs from run
-- to run.

local complain = ...

local raw_tostring, raw_format, sub, find = tostring, string.format, string.sub, string.find
local raw_setmetatable, rawlen, rawget = setmetatable, rawlen, rawget

-- ---- Text ---------------------------------------------------------------------------------------

-- A table's or function's address would be in the text.
local function refuse_addresses(value)
  local kind = type(value)
  if (kind == "table" and not (getmetatable(value) or {}).__tostring) or kind == "function" then
    complain("a " .. kind .. " has no text")
  end
end

local function safe_tostring(value)
  refuse_addresses(value)
  return raw_tostring(value)
end

local function safe_format(format, ...)
  if find(format, "%%[^%a%%]*p") then complain("format %p would print an address") end
  for i = 1, select("#", ...) do refuse_addresses((select(i, ...))) end
  return raw_format(format, ...)
end

-- ---- Patterns -----------------------------------------------------------------------------------

local MOST_STEPS = 2e8 -- about half a second

-- The position behind the set that begins at `at`.
local function behind_set(pattern, at)
  at = at + (sub(pattern, at + 1, at + 1) == "^" and 2 or 1)
  repeat
    at = at + (sub(pattern, at, at) == "%" and 2 or 1)
  until at > #pattern or sub(pattern, at, at) == "]"
  return at + 1
end

-- The steps that a search may take: every * + - may try every length, from every beginning.
local function worst_steps(length, pattern, anchored)
  local steps, at = (anchored and 1 or length + 1) * (1 + #pattern // 16), 1
  while at <= #pattern do
    local c = sub(pattern, at, at)
    if c == "%" then
      local class = sub(pattern, at + 1, at + 1)
      if find(class, "[b%d]") then steps = steps * (length + 1.0) end
      at = at + 2
    elseif c == "[" then
      at = behind_set(pattern, at)
    else
      if find(c, "[*+-]") then steps = steps * (length + 1.0) end
      if c == "?" then steps = steps * 2.0 end
      at = at + 1
    end
  end
  return steps
end

-- f(text, pattern, ...), where its worst case is bearable.
local function bounded(f, can_anchor)
  return function(text, pattern, ...)
    if type(pattern) == "number" then pattern = raw_tostring(pattern) end
    if type(text) == "number" then text = raw_tostring(text) end
    if type(text) == "string" and type(pattern) == "string" then
      local anchored = can_anchor and sub(pattern, 1, 1) == "^"
      local steps = (f == find and select(2, ...)) and (#text + 1.0) * (#pattern + 1) / 16
        or worst_steps(#text, pattern, anchored)
      if steps > MOST_STEPS then
        complain(raw_format("pattern '%.40s' might take %.0e steps in a text of %d bytes; at most "
          .. "%.0e are allowed: use fewer of * + -, or a shorter text", pattern, steps, #text,
          MOST_STEPS))
      end
    end
    return f(text, pattern, ...)
  end
end

-- ---- Tables -------------------------------------------------------------------------------------

-- f(list, ...), where the list's length is that of what it holds.
local function of_list(f)
  return function(list, ...)
    if type(list) == "table" and #list ~= rawlen(list) then
      complain("a table whose __len is not its length")
    end
    return f(list, ...)
  end
end

local function safe_sort(list, before)
  if before == nil then return table.sort(list) end
  -- Lua code, in which the host counts
  return table.sort(list, function(a, b) return before(a, b) end)
end

local function safe_unpack(list, first, last)
  first, last = first or 1, last or #list
  if last - first > 250 then complain("unpack: more than 250 values") end
  return table.unpack(list, first, last)
end

local function safe_byte(text, first, last)
  first = first or 1
  last = last or first
  if first < 0 then first = math.max(#text + first + 1, 1) end
  if math.min(last < 0 and #text + last + 1 or last, #text) - first > 250 then
    complain("byte: more than 250 values")
  end
  return string.byte(text, first, last)
end

-- The keys of a table in one order: pairs has another in every state.
local function sorted(map)
  local keys = {}
  for key in next, map do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return safe_tostring(a) < safe_tostring(b) end)
  return keys
end

-- No code runs outside the template's own: the host cannot stop what collects garbage.
local function safe_setmetatable(map, meta)
  if type(meta) == "table" and rawget(meta, "__gc") ~= nil then complain("__gc is not run") end
  return raw_setmetatable(map, meta)
end

local function copy_without(from, unwanted)
  local to = {}
  for key, value in next, from do
    if not unwanted[key] then to[key] = value end
  end
  return to
end

local safe_string = copy_without(string, {
  dump = true, pack = true, packsize = true, unpack = true
})
safe_string.format = safe_format
safe_string.byte = safe_byte
safe_string.find = bounded(find, true)
safe_string.match = bounded(string.match, true)
safe_string.gsub = bounded(string.gsub, true)
safe_string.gmatch = bounded(string.gmatch, false)

-- Also as methods, such as ("%p"):format(...); the engine keeps Lua's own.
local of_strings = getmetatable("")
of_strings.__index, of_strings.__metatable = safe_string, "sandbox"

return {
  assert = assert, error = error, ipairs = ipairs, select = select, tonumber = tonumber,
  type = type, setmetatable = safe_setmetatable, getmetatable = getmetatable, rawequal = rawequal,
  tostring = safe_tostring, sorted = sorted, string = safe_string,
  math = copy_without(math, { random = true, randomseed = true }),
  table = {
    concat = of_list(table.concat), insert = of_list(table.insert), pack = table.pack,
    remove = of_list(table.remove), sort = of_list(safe_sort), unpack = of_list(safe_unpack),
  },
}
