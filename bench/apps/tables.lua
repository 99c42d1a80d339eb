-- SPDX-License-Identifier: BSD-3-Clause
-- Trees of tables, strings as keys, and lists that grow and shrink.
local function tree(depth)
  if depth == 0 then return { value = depth } end
  return { left = tree(depth - 1), right = tree(depth - 1), name = "node" .. depth }
end

local function count(node)
  if not node.left then return 1 end
  return 1 + count(node.left) + count(node.right)
end

local total = 0
for round = 1, tonumber(arg[1]) do
  total = total + count(tree(14))
  local words, state = {}, round
  for number = 1, 30000 do
    state = (state * 1103515245 + 12345) % 2147483648
    local key = "word" .. state % 4999
    local list = words[key] or {}
    list[#list + 1] = key .. "-" .. number
    words[key] = list
  end
  for key, list in pairs(words) do
    total = total + #table.concat(list, ",")
    words[key] = nil
  end
end
print(total)
