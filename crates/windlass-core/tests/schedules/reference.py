"""Computes the ticks of schedules a second time, with nothing in common but the time-zone data.

Reads JSON on standard input:
{"zones": folder, "holidays": [date], "cases": [{"schedule": text, "from": date, "to": date, "around_changes": bool}]}.
Prints a line of JSON for each case, {"spans": [[start, end]], "ticks": [tick]}, in seconds since 1970. With
`around_changes` the spans are the three days around each clock change between the two dates.

It accepts the canonical forms only: `daily at`, `weekly on`, `every`, and cron expressions of numbers, ranges, lists,
steps, stars, `L`, `#` and days with `L`; each with hours, days and `except holidays`. It iterates over every day and
every minute, where the rule in Rust searches.
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
    """Returns how far clocks are ahead of UTC at an instant, in seconds."""
    return int(datetime.fromtimestamp(second, zone).utcoffset().total_seconds())


@lru_cache(maxsize=None)
def changes(name, start, end):
    """Returns the instants at which the clocks of a zone change. All changes in this range are on a whole half hour."""
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
    """Returns all instants at which clocks show a date and time: none in a gap, two in an overlap."""
    both = (shown.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    seconds = {int(local.timestamp()) for local in both}
    back = lambda second: datetime.fromtimestamp(second, zone).replace(tzinfo=None)
    return sorted(second for second in seconds if back(second) == shown)


def appointment(zone, shown, last=False):
    """Returns the instant of an appointment: the first that shows it, or the first shown time after it."""
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
    """Returns the appointments on all matching dates, each instant once. The window checks the written time."""
    zone = case.zone
    ticks = set()
    for day in case.dates():
        if falls_on(day):
            for hour, minute in times:
                if case.window.is_open(day, (hour, minute)):
                    ticks.add(appointment(zone, datetime(day.year, day.month, day.day, hour, minute)))
    return ticks


class Window:
    """Hours, days and holidays. A time before the opening time belongs to the window of the day before."""

    def __init__(self, parts, holidays):
        hours = [part for part in parts if ":" in part]
        days = [part for part in parts if ":" not in part and part != "except holidays"]
        self.hours = tuple(read_time(time) for time in hours[0].split("-")) if hours else None
        self.days = read_days(days[0]) if days else set(range(7))
        self.holidays = set(holidays) if "except holidays" in parts else set()
        self.is_always = not parts

    def opens_on(self, day):
        return day.weekday() in self.days and day not in self.holidays

    def shows_open(self, time):
        if self.hours is None:
            return True
        opens, closes = self.hours
        return opens <= time <= closes if opens < closes else time >= opens or time <= closes

    def is_open(self, day, time):
        if day in self.holidays or not self.shows_open(time[:2]):
            return False
        is_rest_of_last_night = self.hours is not None and time[:2] < self.hours[0]
        return self.opens_on(day - timedelta(days=1) if is_rest_of_last_night else day)


def beats(case, minutes, hours, falls_on):
    """Returns the matching minutes of the days around each change, by the time that the clock then shows."""
    ticks = set()
    for start, end in case.spans:
        for block in range(start, end + 1, HALF_HOUR):
            ahead = offset(case.zone, block)
            for second in range(block, block + HALF_HOUR, 60):
                shown = second + ahead
                if shown // 60 % 60 in minutes and shown // 3_600 % 24 in hours:
                    day = date(1970, 1, 1) + timedelta(days=shown // DAY)
                    if falls_on(day) and case.window.is_open(day, (shown // 3_600 % 24, shown // 60 % 60)):
                        ticks.add(second)
    return ticks


def intervals(case, interval):
    window = case.window
    if window.is_always:
        spans = ((start - start % interval, end) for start, end in case.spans)
        return {second for start, end in spans for second in range(start, end + 1, interval)}
    opens, closes = window.hours or ((0, 0), None)
    at = lambda day, time, last=False: appointment(case.zone, datetime(day.year, day.month, day.day, *time), last)
    ticks = set()
    for day in case.dates():
        if not window.opens_on(day):
            continue
        tomorrow = day + timedelta(days=1)
        start = at(day, opens)
        if closes is None:
            stands_for_closing, ends = None, [at(tomorrow, (0, 0)) - 1]
        else:
            stands_for_closing = at(tomorrow if closes < opens else day, closes, last=True)
            ends = [stands_for_closing]
        if window.opens_on(tomorrow):
            ends.append(at(tomorrow, opens) - 1)
        if tomorrow in window.holidays:
            ends.append(at(tomorrow, (0, 0)) - 1)
        for second in range(start, min(ends) + 1, interval):
            shown = datetime.fromtimestamp(second, case.zone)
            past = window.hours is not None and shown.second and (shown.hour, shown.minute) == closes
            if second in (start, stands_for_closing) or (window.shows_open((shown.hour, shown.minute)) and not past):
                ticks.add(second)
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
    for part in filter(None, text.split(",")):
        span, _, step = part.partition("/")
        first, last = (low, high) if span == "*" else ([int(n) for n in span.split("-")] * 2)[:2]
        numbers.update(range(first, last + 1, int(step or 1)))
    return numbers


def read_days_of_month(text):
    """Returns a predicate on dates."""
    numbers = read_field(",".join(part for part in text.split(",") if part != "L"), 1, 31)
    takes_last = "L" in text.split(",")
    return lambda day: day.day in numbers or (takes_last and (day + timedelta(days=1)).month != day.month)


def read_days_of_week(text):
    """Returns a predicate on dates. `5#2` is the second Friday of a month, `5L` the last."""
    parts = text.split(",")
    plain = ",".join(part for part in parts if not part.endswith("L") and "#" not in part)
    weekly = {number % 7 for number in read_field(plain, 0, 6)}
    nth = {tuple(int(n) for n in part.split("#")) for part in parts if "#" in part}
    last = {int(part[:-1]) for part in parts if part.endswith("L")}

    def fits(day):
        number = day.isoweekday() % 7
        count = (day.day + 6) // 7
        is_last = (day + timedelta(days=7)).month != day.month
        return number in weekly or (number, count) in nth or (number in last and is_last)

    return fits


def cron(case, text):
    fields = text.split(" ")
    minutes, hours = read_field(fields[0], 0, 59), read_field(fields[1], 0, 23)
    months = read_field(fields[3], 1, 12)
    month_day, week_day = read_days_of_month(fields[2]), read_days_of_week(fields[4])

    def falls_on(day):
        by_month, by_week = month_day(day), week_day(day)
        both = fields[2].startswith("*") or fields[4].startswith("*")
        return day.month in months and (by_month and by_week if both else by_month or by_week)

    if fields[0].startswith("*") or len(hours) == 24:
        return beats(case, minutes, hours, falls_on)
    return at_times(case, [(hour, minute) for hour in sorted(hours) for minute in sorted(minutes)], falls_on)


class Case:
    def __init__(self, case):
        self.words, *parts, self.zone_name = case["schedule"].split(", ")
        self.window = Window(parts, [date.fromisoformat(day) for day in request["holidays"]])
        self.zone = ZoneInfo(self.zone_name)
        start, end = (utc_seconds(date.fromisoformat(case[key])) for key in ("from", "to"))
        day_and_a_half = 3 * DAY // 2
        # A zone whose clocks never change is compared on a few days.
        around = (changes(self.zone_name, start, end) or [start + 2 * DAY]) if case["around_changes"] else None
        self.spans = [(start, end)] if around is None else [(at - day_and_a_half, at + day_and_a_half) for at in around]

    def dates(self):
        """Yields every date that touches one of the spans, and some dates around them."""
        for start, end in self.spans:
            first, last = (date(1970, 1, 1) + timedelta(days=second // DAY) for second in (start, end))
            yield from dates(first - timedelta(days=2), last + timedelta(days=2))

    def all(self):
        words = self.words
        if match := re.fullmatch(r"daily at (\S+)", words):
            return at_times(self, [read_time(time) for time in match[1].split(",")], lambda day: True)
        if match := re.fullmatch(r"weekly on (\S+) at (\S+)", words):
            days = read_days(match[1])
            times = [read_time(time) for time in match[2].split(",")]
            return at_times(self, times, lambda day: day.weekday() in days)
        if match := re.fullmatch(r"every (.+)", words):
            return intervals(self, read_interval(match[1]))
        return cron(self, words)

    def ticks(self):
        """Returns the ticks strictly after the start of a span and no later than its end."""
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
