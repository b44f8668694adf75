-- breakers: the circuit breakers of external platforms, in the hash `breakers`: by name, a version, a space,
-- and core's text as JSON.

-- The version and the state of a breaker. An unreadable breaker counts as never written, and is overwritten.
local function read_breaker(text)
  local version, state = string.match(text or '', '^(%d+) (.*)$')
  if not version or #version > 15 then
    return 0, ''
  end
  return tonumber(version), state
end
