// Package suggest finds what a user probably meant: the known word with the least edit distance to the typed one.
package suggest

import (
	"slices"
	"strings"
)

// Word returns the candidate with the least edit distance to the typed word, case ignored; the first in alphabetical order
// of several, "" when none is near (further than two edits and half the word's length).
func Word(typed string, candidates []string) string {
	best, bestCost := "", 1+max(2, len(typed)/2)
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if cost := Distance(typed, c); cost < bestCost {
			best, bestCost = c, cost
		}
	}
	return best
}

// Distance is Levenshtein's: the least number of bytes to insert, delete or replace, case ignored.
func Distance(a, b string) int { return distance(strings.ToLower(a), strings.ToLower(b)) }

func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
