"""Times of day as texts: 13:15, 13:15:30, 13:15:30.25 and 1:15 PM."""

import re

DAY = 86_400.0  # seconds
CLOCK = r"^([0-9]{1,2}):([0-5][0-9])(:[0-5][0-9]([.,][0-9]{1,9})?)?( ?([AaPp])[Mm])?$"


def seconds_of(text: str) -> float | None:
    """Seconds since midnight; None if the text is not a time of day.

    >>> seconds_of("01:00:30"), seconds_of("12:00 AM"), seconds_of("24:00"), seconds_of("24:01")
    (3630.0, 0.0, 86400.0, None)
    """
    found = re.match(CLOCK, text)
    if found is None:
        return None
    hour = int(found[1])
    if found[6]:  # 12 AM is 0 and 12 PM is 12
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (found[6] in "Pp")
    second = float((found[3] or ":0")[1:].replace(",", "."))
    seconds = 3600 * hour + 60 * int(found[2]) + second
    return seconds if seconds <= DAY else None


def text_of(day: float) -> str:
    """A part of a day, from 0 to 1, as a time of day.

    >>> text_of(0.0), text_of(18.5 / 24), text_of(1 / 86_400_000)
    ('00:00:00', '18:30:00', '00:00:00.001')
    """
    minutes, milliseconds = divmod(round(day * DAY * 1000), 60_000)
    hour, minute = divmod(minutes, 60)
    second, fraction = divmod(milliseconds, 1000)
    return f"{hour:02}:{minute:02}:{second:02}" + (f".{fraction:03}" if fraction else "")
