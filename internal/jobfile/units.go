package jobfile

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func compare(a, b string) int { return cmp.Compare(a, b) }

// units of sizes, the largest first.
var units = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"KB", 1e3}, {"B", 1},
}

// maxSize is more than any host has.
const maxSize = 1 << 50

var sizeForm = regexp.MustCompile(`^([0-9]{1,16}(?:\.[0-9]{1,3})?) ?([A-Za-z]{1,3})$`)

// parseSize reads a size with its unit.
func parseSize(s string) (int64, error) {
	bad := errors.New("write a size with its unit, as 512MB, 4GB or 1.5GiB")
	m := sizeForm.FindStringSubmatch(s)
	if m == nil {
		return 0, bad
	}
	for _, u := range units {
		if !strings.EqualFold(m[2], u.name) {
			continue
		}
		thousandths, err := parseThousandths(m[1])
		if err != nil || thousandths > maxSize/u.bytes*1000 {
			return 0, errors.New("no host has that much: write a smaller size")
		}
		return scale(thousandths, u.bytes), nil
	}
	return 0, bad
}

// scale is thousandths of a unit, without an overflow on the way.
func scale(thousandths, unit int64) int64 {
	return thousandths/1000*unit + thousandths%1000*unit/1000
}

// sizeText writes a size in the largest unit that divides it.
func sizeText(n int64) string {
	for _, u := range units {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return "0B"
}

// parseThousandths reads a number with at most three decimals.
func parseThousandths(s string) (int64, error) {
	whole, part, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole+(part + "000")[:3], 10, 64)
	if err != nil || len(part) > 3 || n < 0 {
		return 0, errors.New("at most three decimals")
	}
	return n, nil
}

// thousandths writes them as a number.
func thousandths(n int) string {
	s := fmt.Sprintf("%d.%03d", n/1000, n%1000)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

var durationForm = regexp.MustCompile(`^(?:([0-9]{1,4})d)?(?:([0-9]{1,5})h)?(?:([0-9]{1,7})m)?(?:([0-9]{1,9})s)?$`)

// parseDuration reads a time as 30s, 10m, 1h30m or 2d, in whole seconds.
func parseDuration(s string) (time.Duration, error) {
	m := durationForm.FindStringSubmatch(s)
	if m == nil || s == "" {
		return 0, errors.New("write a time as 30s, 10m, 1h30m or 2d")
	}
	var all time.Duration
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		n, _ := strconv.Atoi("0" + m[i+1])
		all += time.Duration(n) * unit
	}
	return all, nil
}

// Duration writes a time as a job file has it.
func Duration(d time.Duration) string {
	var b strings.Builder
	for _, u := range []struct {
		name string
		of   time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if n := d / u.of; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.of
		}
	}
	if b.Len() == 0 {
		return "0s"
	}
	return b.String()
}
