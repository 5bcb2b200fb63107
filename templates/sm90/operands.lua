-- sm90/operands.lua: the operand lists of inline assembly over many registers.

-- format applied to 0 .. count - 1, separated by commas, in lines between opening and closing.
local function list(count, format, columns, opening, closing)
  local lines, line = {}, ""
  for i = 0, count - 1 do
    local piece = string.format(format, i) .. (i < count - 1 and "," or "")
    if #line + #piece > columns then
      lines[#lines + 1] = opening .. line .. closing
      line = ""
    end
    line = line == "" and piece or line .. " " .. piece
  end
  lines[#lines + 1] = opening .. line .. closing
  return table.concat(lines, "\n")
end

return {
  -- "%0, %1, ..." as string literals.
  registers = function(count) return list(count, "%%%d", 70, '"', '"') end,
  -- "+f"(d[0]), "+f"(d[1]), ...
  accumulators = function(count) return list(count, '"+f"(d[%d])', 74, "", "") end,
}
