-- still_hold: which of these claims are valid: their jobs run, under exactly this token.
-- keys those of its parts
-- ARGV number of claims, for each: id, token
-- answers for each '1' or ''
local ids, tokens = {}, {}
for i = 1, number_arg() do
  ids[i], tokens[i] = arg(), arg()
end

local answers = {}
for i, text in ipairs(get_jobs(STATE, ids)) do
  local holds = text and string.sub(text, 1, 1) == 'r' and string.sub(text, 40, 55) == tokens[i]
  answers[i] = holds and '1' or ''
end
return answer(answers)
