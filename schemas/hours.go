package schemas

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Span is hours that have been read.
type Span struct {
	days     [7]bool // by time.Weekday
	from, to int     // minutes of the day on which they begin; to may be one of the next
	zone     *time.Location
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

const minutesOfDay = 24 * 60

// Span reads the hours. The error says what is wrong with them.
func (h Hours) Span() (Span, error) {
	var s Span
	var err error
	if s.from, err = minutes(h.From); err != nil {
		return s, fmt.Errorf("hours from %q: %w", h.From, err)
	}
	if s.to, err = minutes(h.To); err != nil {
		return s, fmt.Errorf("hours to %q: %w", h.To, err)
	}
	if s.to <= s.from {
		s.to += minutesOfDay
	}
	if h.Zone == "Local" {
		return s, fmt.Errorf("hours in time zone %q: want a name such as Europe/Berlin", h.Zone)
	}
	if s.zone, err = time.LoadLocation(h.Zone); err != nil {
		return s, fmt.Errorf("hours in time zone %q, want a name such as Europe/Berlin: %w", h.Zone, err)
	}
	for _, day := range h.Days {
		i := slices.Index(weekdays, strings.ToLower(day))
		if i < 0 {
			return s, fmt.Errorf("day %q: want mon, tue, wed, thu, fri, sat or sun", day)
		}
		s.days[i] = true
	}
	if len(h.Days) == 0 {
		s.days = [7]bool{true, true, true, true, true, true, true}
	}
	return s, nil
}

func minutes(text string) (int, error) {
	if len(text) != 5 || text[2] != ':' || strings.Trim(text, "0123456789") != ":" {
		return 0, fmt.Errorf("want a time of the day such as 08:30")
	}
	digit := func(i int) int { return int(text[i] - '0') }
	hour, minute := digit(0)*10+digit(1), digit(3)*10+digit(4)
	m := hour*60 + minute
	if minute > 59 || m > minutesOfDay {
		return 0, fmt.Errorf("want a time of the day from 00:00 to 24:00")
	}
	return m, nil
}

// Until gives when the hours end that now is in; ok is false if it is in none.
func (s Span) Until(now time.Time) (end time.Time, ok bool) {
	local := now.In(s.zone)
	for _, back := range []int{0, 1} { // they may have started yesterday
		day := local.AddDate(0, 0, -back)
		at := func(minutes int) time.Time {
			return time.Date(day.Year(), day.Month(), day.Day(), 0, minutes, 0, 0, s.zone)
		}
		if from, to := at(s.from), at(s.to); s.days[day.Weekday()] && !now.Before(from) && now.Before(to) && to.After(end) {
			end, ok = to, true
		}
	}
	return end, ok
}
