//! Schedules in plain words.

use super::*;

#[test]
fn a_schedule_is_told_in_plain_words() {
    let cases = [
        (
            "*/5 9-16 * * 1-5, America/New_York",
            "every 5 minutes from 09:00 to 16:55, Monday to Friday, New York time",
        ),
        ("* * * * *", "every minute, UTC"),
        ("*/15 * * * *", "every 15 minutes, UTC"),
        ("*/10 9-11,14 * * *", "every 10 minutes from 09:00 to 11:50 and from 14:00 to 14:50, UTC"),
        ("*/30 */2 * * *", "every 30 minutes of the hours 0, 2, 4 … 22, UTC"),
        ("*/7 * * * *", "at minutes 0, 7, 14 … 56 past every hour, UTC"),
        ("0 * * * *", "every hour at minute 0, UTC"),
        ("15 */6 * * *", "every 6 hours from 00:15 to 18:15, UTC"),
        ("30 9-16 * * 1-5", "every hour from 09:30 to 16:30, Monday to Friday, UTC"),
        ("0 2 * * *", "every day at 02:00, UTC"),
        ("0 2,14 * * sat,sun", "at 02:00 and 14:00, Saturday and Sunday, UTC"),
        ("0,30 8 1 * *", "at 08:00 and 08:30, on day 1 of the month, UTC"),
        ("0 0 13 * 5", "at 00:00, on day 13 of the month or Friday, UTC"),
        ("0 0 */2 * 5", "at 00:00, on days 1, 3, 5 … 31 of the month if that is Friday, UTC"),
        ("0 0 1-7,15 6-8 *", "at 00:00, on days 1 to 7 and 15 of the month in June to August, UTC"),
        ("0 6 L * *", "at 06:00, on the last day of the month, UTC"),
        ("0 9 * * 5#2,1L", "at 09:00, the last Monday of the month and the second Friday of the month, UTC"),
        ("0 0 * 1,7 *", "at 00:00, in January and July, UTC"),
        ("0 9 * * *, mon-fri, except holidays", "at 09:00, Monday to Friday, except on holidays, UTC"),
        ("0 9 1 * *, mon-fri", "at 09:00, on day 1 of the month, only Monday to Friday, UTC"),
        ("*/5 * * * *, 09:30-16:00", "every 5 minutes, only between 09:30 and 16:00, UTC"),
        (
            "every 5m, 9:30-16:00, weekdays, except holidays, America/New_York",
            "every 5 minutes from 09:30 to 16:00, Monday to Friday, except on holidays, New York time",
        ),
        ("every 1h, 22:00-06:00", "every hour from 22:00 to 06:00 the next day, UTC"),
        ("every 1d, Asia/Tokyo", "every day, counted from 1970-01-01T00:00:00Z, Tokyo time"),
        ("every 1h, Asia/Kolkata", "every hour, counted from 1970-01-01T00:00:00Z, Kolkata time"),
        ("every 15m, Asia/Kolkata", "every 15 minutes, Kolkata time"),
        ("every 7h", "every 7 hours, counted from 1970-01-01T00:00:00Z, UTC"),
        ("every 90m", "every 1 hour 30 minutes, UTC"),
        ("every 14d from 2027-01-04T09:00:00Z", "every 14 days, counted from 2027-01-04T09:00:00Z, UTC"),
        ("daily at 02:00, 14:00", "every day at 02:00 and 14:00, UTC"),
        ("daily at 02:00, mon-thu", "at 02:00, Monday to Thursday, UTC"),
        ("weekly on mon at 09:00, Europe/Berlin", "every Monday at 09:00, Berlin time"),
        ("weekly on tue,thu at 09:00, 17:30", "every Tuesday and Thursday at 09:00 and 17:30, UTC"),
        ("weekly on mon-fri at 09:00", "at 09:00, Monday to Friday, UTC"),
        ("daily at 02:00, America/Argentina/Buenos_Aires", "every day at 02:00, Buenos Aires time"),
        ("daily at 02:00, Etc/GMT+5", "every day at 02:00, Etc/GMT+5"),
    ];
    for (text, words) in cases {
        assert_eq!(schedule(text).words(), words, "{text}");
    }
}
