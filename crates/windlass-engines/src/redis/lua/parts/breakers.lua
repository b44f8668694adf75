-- breakers: what is known of outside platforms, in the hash `breakers`: by name, a version, a space, and core's words as
-- JSON.

-- The version of a breaker and what is known of it. What cannot be read counts as never written, and is written over.
local function read_breaker(text)
  local version, state = string.match(text or '', '^(%d+) (.*)$')
  if not version or #version > 15 then
    return 0, ''
  end
  return tonumber(version), state
end
