"""When schedules run, computed a second time with nothing in common but the time-zone data.

Reads JSON on standard input:
{"zones": folder, "cases": [{"schedule": text, "from": date, "to": date, "around_changes": bool}]}.
Prints a line of JSON for each case, {"spans": [[start, end]], "ticks": [tick]}, in seconds since 1970. With
`around_changes` the spans are the three days around each change of clocks between the two dates.

It knows the plain forms only: `daily at`, `weekly on`, `every` with or without a window, and cron expressions of
numbers, ranges, lists, steps and stars. It walks over every day and every minute, where the rule in Rust searches.
"""

import json
import re
import sys
from bisect import bisect_right
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from zoneinfo import ZoneInfo, reset_tzpath

UTC = timezone.utc
DAY = 86_400
HALF_HOUR = 1_800
DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
NAMED_UNITS = {"d": DAY, "h": 3_600, "m": 60, "s": 1}


def offset(zone, second):
    """How far clocks are ahead of UTC at an instant, in seconds."""
    return int(datetime.fromtimestamp(second, zone).utcoffset().total_seconds())


@lru_cache(maxsize=None)
def changes(name, start, end):
    """The instants at which the clocks of a zone change. All changes of our time are on a whole half hour."""
    zone = ZoneInfo(name)
    found, coarse = [], offset(zone, start)
    for day in range(start, end, DAY):
        if offset(zone, day + DAY) == coarse:
            continue
        for second in range(day, day + DAY, HALF_HOUR):
            after = offset(zone, second + HALF_HOUR)
            if after != coarse:
                assert offset(zone, second + HALF_HOUR - 1) == coarse, (name, second)
                found.append(second + HALF_HOUR)
                coarse = after
    return found


def utc_seconds(day):
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


def instants_showing(zone, shown):
    """All instants at which clocks show a date and time: none in a gap, two in an overlap."""
    both = (shown.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    seconds = {int(local.timestamp()) for local in both}
    back = lambda second: datetime.fromtimestamp(second, zone).replace(tzinfo=None)
    return sorted(second for second in seconds if back(second) == shown)


def appointment(zone, shown, last=False):
    """The instant of an appointment: the first that shows it, or the first after it that shows anything."""
    found = instants_showing(zone, shown)
    if found:
        return found[-1 if last else 0]
    while not found:
        shown += timedelta(minutes=1)
        found = instants_showing(zone, shown)
    return found[0]


def dates(first, last):
    while first <= last:
        yield first
        first += timedelta(days=1)


def at_times(case, times, falls_on):
    """Appointments on all dates that fit, each instant once."""
    zone = case.zone
    ticks = set()
    for day in case.dates():
        if falls_on(day):
            for hour, minute in times:
                ticks.add(appointment(zone, datetime(day.year, day.month, day.day, hour, minute)))
    return ticks


def beats(case, minutes, hours, falls_on):
    """Every minute of the days around each change, by what the clock then shows."""
    ticks = set()
    for start, end in case.spans:
        for block in range(start, end + 1, HALF_HOUR):
            ahead = offset(case.zone, block)
            for second in range(block, block + HALF_HOUR, 60):
                shown = second + ahead
                if shown // 60 % 60 in minutes and shown // 3_600 % 24 in hours:
                    if falls_on(date(1970, 1, 1) + timedelta(days=shown // DAY)):
                        ticks.add(second)
    return ticks


def intervals(case, interval, window, days):
    if window is None and days is None:
        spans = ((start - start % interval, end) for start, end in case.spans)
        return {second for start, end in spans for second in range(start, end + 1, interval)}
    (opens, closes) = window or ((0, 0), None)
    ticks = set()
    for day in case.dates():
        if days is not None and day.weekday() not in days:
            continue
        start = appointment(case.zone, datetime(day.year, day.month, day.day, *opens))
        tomorrow = day + timedelta(days=1)
        if closes is None:
            end = appointment(case.zone, datetime(tomorrow.year, tomorrow.month, tomorrow.day)) - 1
        else:
            closing = tomorrow if closes < opens else day
            end = appointment(case.zone, datetime(closing.year, closing.month, closing.day, *closes), last=True)
        ticks.update(range(start, end + 1, interval))
    return ticks


def read_time(text):
    hour, minute = text.split(":")
    return int(hour), int(minute)


def read_days(text):
    days = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        first, last = DAYS.index(first), DAYS.index(last or first)
        days.update(range(first, last + 1))
    return days


def read_interval(text):
    return sum(int(number) * NAMED_UNITS[unit] for number, unit in re.findall(r"(\d+)([dhms])", text))


def read_field(text, low, high):
    numbers = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, last = (low, high) if span == "*" else ([int(n) for n in span.split("-")] * 2)[:2]
        numbers.update(range(first, last + 1, int(step or 1)))
    return numbers


def cron(case, text):
    fields = text.split(" ")
    minutes, hours = read_field(fields[0], 0, 59), read_field(fields[1], 0, 23)
    month_days, months = read_field(fields[2], 1, 31), read_field(fields[3], 1, 12)
    week_days = {number % 7 for number in read_field(fields[4], 0, 6)}

    def falls_on(day):
        by_month, by_week = day.day in month_days, day.isoweekday() % 7 in week_days
        both = fields[2].startswith("*") or fields[4].startswith("*")
        return day.month in months and (by_month and by_week if both else by_month or by_week)

    if fields[0].startswith("*") or fields[1].startswith("*"):
        return beats(case, minutes, hours, falls_on)
    return at_times(case, [(hour, minute) for hour in sorted(hours) for minute in sorted(minutes)], falls_on)


class Case:
    def __init__(self, case):
        *self.parts, self.zone_name = case["schedule"].split(", ")
        self.zone = ZoneInfo(self.zone_name)
        start, end = (utc_seconds(date.fromisoformat(case[key])) for key in ("from", "to"))
        day_and_a_half = 3 * DAY // 2
        # Where clocks never change, some days must do.
        around = (changes(self.zone_name, start, end) or [start + 2 * DAY]) if case["around_changes"] else None
        self.spans = [(start, end)] if around is None else [(at - day_and_a_half, at + day_and_a_half) for at in around]

    def dates(self):
        """Every date that touches one of the spans, and some around."""
        for start, end in self.spans:
            first, last = (date(1970, 1, 1) + timedelta(days=second // DAY) for second in (start, end))
            yield from dates(first - timedelta(days=2), last + timedelta(days=2))

    def all(self):
        words, *window = self.parts
        if match := re.fullmatch(r"daily at (\S+)", words):
            return at_times(self, [read_time(time) for time in match[1].split(",")], lambda day: True)
        if match := re.fullmatch(r"weekly on (\S+) at (\S+)", words):
            days = read_days(match[1])
            times = [read_time(time) for time in match[2].split(",")]
            return at_times(self, times, lambda day: day.weekday() in days)
        if match := re.fullmatch(r"every (.+)", words):
            hours = [part for part in window if ":" in part]
            days = [part for part in window if ":" not in part]
            open_hours = tuple(read_time(time) for time in hours[0].split("-")) if hours else None
            return intervals(self, read_interval(match[1]), open_hours, read_days(days[0]) if days else None)
        return cron(self, words)

    def ticks(self):
        """Strictly after the start of a span and no later than its end."""
        starts = [start for start, _ in self.spans]
        ends = [end for _, end in self.spans]

        def is_inside(tick):
            index = bisect_right(starts, tick - 1) - 1
            return index >= 0 and tick <= ends[index]

        return sorted(tick for tick in self.all() if is_inside(tick))


request = json.load(sys.stdin)
reset_tzpath([request["zones"]])
for case in map(Case, request["cases"]):
    print(json.dumps({"spans": case.spans, "ticks": case.ticks()}))
