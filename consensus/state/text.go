package state

import (
	"encoding/json"
	"strings"
)

// encodedLen is how many bytes a text takes in the encoded state, without quotes: "<" takes six.
func encodedLen(s string) int {
	b, err := json.Marshal(s)
	if err != nil { // never: every string has a form
		return len(s)
	}
	return len(b) - 2
}

// Clip cuts a text so that it takes at most limit bytes in the encoded state, without cutting a character in two. What is
// bounded by its length alone is six times as long there.
func Clip(s string, limit int) string {
	if len(s) <= limit && encodedLen(s) <= limit {
		return s
	}
	size := 0
	for i, r := range s {
		if size += encodedLen(string(r)); size > limit {
			return s[:i]
		}
	}
	return s
}

// ClipWords is Clip for words that somebody reads: it ends with a mark, and with a whole word unless that is very long. Half a digest looks as
// a whole one does. What is applied never uses it: it took other words before.
func ClipWords(s string, limit int) string {
	if Clip(s, limit) == s {
		return s
	}
	const mark = " …"
	kept := Clip(s, limit-len(mark))
	if end := strings.LastIndexByte(kept, ' '); end >= len(kept)/3 {
		return kept[:end] + mark
	}
	return kept + strings.TrimSpace(mark)
}

// fits reports whether all texts take at most limit bytes each in the encoded state.
func fits(limit int, texts ...string) bool {
	for _, s := range texts {
		if len(s) > limit || encodedLen(s) > limit {
			return false
		}
	}
	return true
}
