//! Moments as a ZIP can say them: from 1980 to 2107, in steps of two seconds.
//! They are in UTC; the format has no word for that.

use zip::DateTime;

const DAY: u64 = 86_400;

/// 1980-01-01 and the last second that can be said, in seconds since 1970.
const FIRST: u64 = 315_532_800;
const LAST: u64 = 4_354_819_198;

/// The nearest moment that can be said.
pub(crate) fn of(seconds: u64) -> DateTime {
    let seconds = seconds.clamp(FIRST, LAST);
    let mut days = seconds / DAY;
    let mut year: u16 = 1970;
    while days >= length(year) {
        days -= length(year);
        year += 1;
    }
    let mut month: u8 = 1;
    while days >= month_length(year, month) {
        days -= month_length(year, month);
        month += 1;
    }
    let small = |number: u64| u8::try_from(number).unwrap_or_default();
    let time = seconds % DAY;
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    let moment = DateTime::from_date_and_time(
        year,
        month,
        small(days + 1),
        small(hour),
        small(minute),
        small(second),
    );
    moment.unwrap_or(DateTime::DEFAULT)
}

fn leap(year: u16) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn length(year: u16) -> u64 {
    if leap(year) { 366 } else { 365 }
}

fn month_length(year: u16, month: u8) -> u64 {
    match month {
        2 if leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_said_in_utc_and_the_others_are_moved_to_the_nearest() {
        for (seconds, expected) in [
            (0, (1980, 1, 1, 0, 0, 0)),
            (951_782_400, (2000, 2, 29, 0, 0, 0)),
            (1_000_000_000, (2001, 9, 9, 1, 46, 40)),
            (1_767_225_599, (2025, 12, 31, 23, 59, 58)),
            (4_107_542_400, (2100, 3, 1, 0, 0, 0)),
            (u64::MAX, (2107, 12, 31, 23, 59, 58)),
        ] {
            let moment = of(seconds);
            let (year, month, day) = (moment.year(), moment.month(), moment.day());
            let (hour, minute, second) = (moment.hour(), moment.minute(), moment.second());
            assert_eq!((year, month, day, hour, minute, second), expected, "{seconds}");
        }
    }
}
