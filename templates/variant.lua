-- variant.lua: what stands in a variant's file: the words variant, f32 and i32, and what its functions
-- get: `at`, the pair, and `p`, the parameters.

local expr = require "expr"

local variant = {}

-- ---- Parameters ---------------------------------------------------------------------------------

local parameter = {} -- metatable of a declaration

local options = {
  per = "string", size = "string", grad = "boolean", draw = "table", longest = "number",
  min = "number", max = "number", above = "number", below = "number",
}
local limits = { "min", "max", "above", "below" }
local lowest, highest = -(1 << 31), (1 << 31) - 1 -- of an i32

local function check_name(name, what)
  if type(name) ~= "string" or #name > 31 or not name:find("^[a-z][a-z0-9_]*$") then
    refuse(what .. " '" .. tostring(name) .. "': a name is 1 to 31 of a-z 0-9 _, a letter first")
  end
end

local function check_number(value, kind, what)
  if type(value) ~= "number" or value ~= value or math.abs(value) == math.huge then
    refuse(what .. " must be a finite number")
  end
  if kind == "i32" and (math.tointeger(value) == nil or value < lowest or value > highest) then
    refuse(what .. " must be a whole number of 32 bits")
  end
end

local function inside(d, value)
  return not (d.min and value < d.min or d.max and value > d.max
    or d.above and value <= d.above or d.below and value >= d.below)
end

-- The range that tests draw from: as declared, else [0.1, 1] or [0, seqlen_k] within the limits.
local function take_draw(d)
  if d.draw then
    if #d.draw ~= 2 then refuse("draw takes two numbers: draw = { low, high }") end
    for i = 1, 2 do check_number(d.draw[i], d.kind, "draw") end
    d.draw_low, d.draw_high = d.draw[1], d.draw[2]
  elseif d.kind == "f32" then
    d.draw_low, d.draw_high = math.max(0.1, d.min or 0.1), math.min(1, d.max or 1)
  else
    d.draw_low, d.draw_high = math.max(0, d.min or 0), d.max or "seqlen_k"
  end
  local high = d.draw_high == "seqlen_k" and d.draw_low or d.draw_high
  if d.draw_low > high or not inside(d, d.draw_low) or not inside(d, high) then
    refuse("draw, the range that tests draw from, must be given within the limits")
  end
end

local function check_table(d)
  if d.per and d.per ~= "head" and d.per ~= "q" and d.per ~= "k" then
    refuse("per must be 'head', 'q' or 'k', not '" .. d.per .. "'")
  end
  if d.size then check_name(d.size, "size") end
  if d.size and d.per and d.per ~= "head" then
    refuse("size goes with no per, or with per = 'head'")
  end
  if d.longest and (not d.size or math.tointeger(d.longest) == nil or d.longest < 1) then
    refuse("longest is the most elements that a table with a size may have, 1 or more")
  end
  for _, limit in ipairs(limits) do
    if d.is_table and d[limit] then
      refuse(limit .. " is for a scalar: nothing reads the values of a table before they are used")
    end
  end
end

local function declare(kind, given)
  if type(given) ~= "table" then refuse(kind .. " takes a table: " .. kind .. " { min = 0 }") end
  local d = setmetatable({ kind = kind, type = kind == "i32" and "int" or "real" }, parameter)
  for _, key in ipairs(sorted(given)) do
    if not options[key] then refuse(kind .. ": unknown field '" .. tostring(key) .. "'") end
    if type(given[key]) ~= options[key] then
      refuse(kind .. ": " .. key .. " must be a " .. options[key])
    end
    d[key] = given[key]
  end
  d.is_table = d.per ~= nil or d.size ~= nil
  d.line = line_of_variant()
  check_table(d)
  for _, limit in ipairs(limits) do
    if d[limit] then check_number(d[limit], kind, kind .. ": " .. limit) end
  end
  if d.grad and kind == "i32" then refuse("i32: a whole number has no gradient") end
  take_draw(d)
  return d
end

-- f32 and i32: calls, and declarations by themselves.
local kind_word = {
  __call = function(word, given) return declare(word.kind, given) end,
  __tostring = function(word) return word.kind end,
}

local function check_params(declared)
  local params, sizes = {}, {}
  for _, name in ipairs(sorted(declared)) do
    check_name(name, "parameter")
    local d = declared[name]
    if getmetatable(d) == kind_word then
      d = declare(d.kind, {})
      d.line = nil -- see locate_words
    end
    if getmetatable(d) ~= parameter then
      refuse("parameter '" .. name .. "' is f32, i32, or one of these with a table of options")
    end
    params[name] = d
    if d.size then sizes[d.size] = true end
  end
  for _, size in ipairs(sorted(sizes)) do
    if params[size] then refuse("'" .. size .. "' names both a parameter and a size") end
  end
  return params
end

-- ---- The variant ---------------------------------------------------------------------------------

variant.type = { __tostring = function() return "variant" end }
local fields = {
  doc = "string", params = "table", keep = "function", score = "function", sink = "function",
}

local function declare_variant(declared)
  if type(declared) ~= "table" then refuse("variant takes a table: variant { doc = ... }") end
  local found = setmetatable({}, variant.type)
  for _, key in ipairs(sorted(declared)) do
    if not fields[key] then refuse("variant: unknown field '" .. tostring(key) .. "'") end
    if type(declared[key]) ~= fields[key] then
      refuse("variant: " .. key .. " must be a " .. fields[key])
    end
    found[key] = declared[key]
  end
  if not found.doc then refuse("variant: lacks doc, a sentence that says what it does") end
  if not found.keep and not found.score and not found.sink then
    refuse("variant: has neither keep nor score nor sink")
  end
  found.params = check_params(found.params or {})
  return found
end

variant.words = {
  variant = declare_variant,
  f32 = setmetatable({ kind = "f32" }, kind_word), i32 = setmetatable({ kind = "i32" }, kind_word),
}
for _, word in ipairs(sorted(expr.words)) do variant.words[word] = expr.words[word] end

-- ---- Lua's own decisions -------------------------------------------------------------------------

local joined = "joins values while the file is read, not pair by pair; write "
local chooses = "chooses while the file is read, not pair by pair; write select(condition, a, b)"
local misunderstood = {
  ["and"] = joined .. "a & b", ["or"] = joined .. "a | b", ["not"] = joined .. "~a",
  ["if"] = chooses, ["elseif"] = chooses,
  ["=="] = "compares while the file is read, not pair by pair; write eq(a, b)",
  ["~="] = "compares while the file is read, not pair by pair; write ne(a, b)",
}

-- Every token that means something: strings and comments are passed over.
local function next_token(text, at)
  local long = text:match("^%-%-%[(=*)%[", at) or text:match("^%[(=*)%[", at)
  if long then
    local _, finish = text:find("]" .. long .. "]", at, true)
    return nil, (finish or #text) + 1
  elseif text:find("^%-%-", at) then
    return nil, (text:find("\n", at, true) or #text + 1)
  end
  local quote = text:match("^[\"']", at)
  if quote then
    repeat
      at = text:find("[\\" .. quote .. "\n]", at + 1) or #text
      local escaped = text:sub(at, at) == "\\"
      if escaped then at = at + 1 end
    until not escaped
    return nil, at + 1
  end
  local token = text:match("^[%a_][%w_]*", at) or text:match("^[=~]=", at) or text:sub(at, at)
  return token, at + #token
end

-- Refuses the words and signs of Lua that would decide or join silently. path: the file's name.
function variant.check_text(text, path)
  local at = 1
  while at <= #text do
    local token, following = next_token(text, at)
    if token and misunderstood[token] then
      local _, lines = text:sub(1, at):gsub("\n", "")
      error(string.format("%s:%d: Lua's %s %s", path, lines + 1, token, misunderstood[token]), 0)
    end
    at = following
  end
end

-- Gives parameters that are f32 or i32 by themselves, which no call has placed, the line of
-- `name = f32`.
function variant.locate_words(declared, text)
  local at, line, before, earlier = 1, 1, nil, nil
  while at <= #text do
    local token, following = next_token(text, at)
    local d = before == "=" and variant.words[token] and declared[earlier]
    if d and not d.line then d.line = line end
    if token and token:find "%S" then earlier, before = before, token end
    line = line + select(2, text:sub(at, following - 1):gsub("\n", ""))
    at = following
  end
end

-- ---- What functions return --------------------------------------------------------------------------

-- The node that the function `what` of a variant returned, after everything that can be refused of it
-- in the name of its file.
function variant.returned(value, what)
  local n = expr.returned(value, what == "keep" and "truth" or "real", what)
  require("range").check(n)
  local on = require("linear").depends(n)
  if what == "keep" then
    if on.s then refuse("keep: a mask cannot depend on the score") end
    if require "contradiction"(require("simplify").graph(n)) then
      refuse("keep is false for every pair, whatever is launched")
    end
  elseif what == "sink" and (on.q or on.k or on.s) then
    refuse("sink: a row's logit cannot depend on at.q, at.k, the score, or tables per 'q' or 'k'")
  end
  return n
end

-- ---- What functions get ---------------------------------------------------------------------------

local places = "at.q at.k at.head at.batch at.seqlen_q at.seqlen_k at.heads_q at.heads_kv"

variant.at = setmetatable({}, {
  __index = function(_, key)
    if type(key) == "string" and (places .. " "):find("at." .. key .. " ", 1, true) then
      return expr.symbol(key)
    end
    refuse("at." .. tostring(key) .. " is unknown; there are " .. places)
  end,
  __newindex = function() refuse("at cannot be changed") end,
})

local function sized_table(name, slot, d)
  return setmetatable({}, {
    __index = function(_, key)
      return expr.element(slot, d.type, expr.index(key, "p." .. name))
    end,
    __newindex = function() refuse("p." .. name .. " cannot be changed") end,
  })
end

local function names_of(params)
  local names = {}
  for _, name in ipairs(sorted(params)) do names[#names + 1] = "p." .. name end
  return #names > 0 and "there are " .. table.concat(names, " ") or "it declares none"
end

-- The `p` of a variant, whose parameters have slots from `first` on in the order of their names. A
-- table's size is there under its own name.
function variant.parameters(params, first)
  local values = {}
  for i, name in ipairs(sorted(params)) do
    local d, slot = params[name], first + i - 1
    values[name] = d.size and sized_table(name, slot, d) or expr.param(slot, d.type)
    if d.size then values[d.size] = values[d.size] or expr.length(slot) end
  end
  return setmetatable({}, {
    __index = function(_, key)
      if values[key] == nil then
        refuse("p." .. tostring(key) .. " is unknown; " .. names_of(values))
      end
      return values[key]
    end,
    __newindex = function() refuse("p cannot be changed") end,
  })
end

return variant
