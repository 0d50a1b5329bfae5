package deeds

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/jobrequest"
)

// Filter is which deeds are asked for. The zero value takes all.
type Filter struct {
	Task     string // of this task, and of its assignments
	Job      string // of this job's tasks, and of their assignments
	Contract string
	Who      *pattern.Pattern // by these SPIFFE IDs
	SinceMS  int64
}

// Takes reports whether a deed is asked for.
func (f Filter) Takes(d *Deed) bool {
	return (f.Task == "" || d.Task == f.Task) && (f.Job == "" || jobrequest.JobOf(d.Task, "") == f.Job) && (f.Contract == "" || d.Contract == f.Contract) && (f.Who == nil || f.Who.Match(d.By)) && d.AtMS >= f.SinceMS
}

// Since reads a moment: a date, an RFC 3339 time, or how long before now it was, such as 90m, 12h or 7d. It returns Unix milliseconds.
func Since(text string, now time.Time) (int64, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.AddDate(0, 0, -int(n)).UnixMilli(), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 && ago < math.MaxInt64 {
		return now.Add(-ago).UnixMilli(), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UnixMilli(), nil
		}
	}
	return 0, fmt.Errorf("%.40q is no time: give a date such as 2026-11-27, a time such as 2026-11-27T08:00:00Z, or how long ago, such as 12h or 7d", text)
}
