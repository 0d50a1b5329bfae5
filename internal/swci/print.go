package swci

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/swarmd/swarmd/internal/text"
)

// printJSON writes v as indented JSON with a final line feed.
func printJSON(w io.Writer, v any) error {
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	if err == nil {
		_, err = io.WriteString(w, escapeControls(text.String()))
	}
	if err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

// escapeControls escapes what JSON may carry as it is and a terminal would obey.
func escapeControls(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r == 0x7f || r >= 0x80 && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) {
			fmt.Fprintf(&out, "\\u%04x", r)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

// table is rows of cells under a header.
type table struct {
	header []string
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// print writes the table with aligned columns. An empty table is its header alone.
func (t *table) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	rows := t.rows
	if t.header != nil {
		rows = append([][]string{t.header}, rows...)
	}
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = text.Line(first(c, "-"))
		}
		// No trailing blanks: the last cell ends the line.
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	return nil
}

// ago renders how long before now a moment in Unix milliseconds was; "" for 0.
func ago(now time.Time, unixMS int64) string {
	if unixMS == 0 {
		return ""
	}
	d := now.Sub(time.UnixMilli(unixMS)).Round(time.Second)
	return max(d, 0).String()
}

// stamp renders Unix milliseconds as RFC 3339 in UTC, or nil for 0, for JSON.
func stamp(unixMS int64) *string {
	if unixMS == 0 {
		return nil
	}
	s := time.UnixMilli(unixMS).UTC().Format("2006-01-02T15:04:05.000Z07:00")
	return &s
}

// short is the beginning of a digest, long enough to compare by eye.
func short(digest string) string { return digest[:min(12, len(digest))] }

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
