-- postfix.lua: an expression as the words of gen/params.h, for readers that share nothing with the
-- modules here: "k q sub 5 le".

local function leaf(n)
  if n.op == "const" then
    if n.type == "truth" then return n.value and "0 0 eq" or "0 0 ne" end
    return string.format("%.17g", n.value)
  elseif n.op == "symbol" then
    return n.name
  end
  return (n.op == "length" and "n" or "p") .. n.slot
end

local function postfix(n)
  if not n[1] then return leaf(n) end
  local words = {}
  for i, child in ipairs(n) do words[i] = postfix(child) end
  if n.op == "table" then
    words[#words + 1] = "t" .. n.slot
  elseif n.op ~= "real" then -- every number of a reader is real
    words[#words + 1] = n.op
  end
  return table.concat(words, " ")
end

return postfix
