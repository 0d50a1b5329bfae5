package swci_test

import (
	"strings"
	"testing"
)

// TestStatusTellsOfModelsLostAndAdopted: once in words, and whole as JSON.
func TestStatusTellsOfModelsLostAndAdopted(t *testing.T) {
	for words, want := range map[string]string{
		"get contract status lost": "\nlost       the model of round 4, 0123456789ab; round 5 went back to the model of round 3\n",
		"get contract status lost -o json": `
  "lost_model": {
    "round": 4,
    "digest": "0123456789abcdef",
    "resumed_round": 3,
    "at": "1970-01-01T00:00:10.000Z"
  },
`,
		"get contract status c -o json": "\n  \"lost_model\": null,\n  \"adopted_round\": null,\n",
		"get contract status adopted":   "\nadopted    the model of round 7, which 2 nodes have signed, as round 9; the SNs were restored from a backup of round 3\n",
		"get contract status adopted -o json": `
  "adopted_round": {
    "round": 9,
    "proven_round": 7,
    "last_round": 3,
    "signed": 2,
    "at": "1970-01-01T00:00:10.000Z"
  },
`,
	} {
		got, err := run(t, append(strings.Fields(words), "--sn=10.0.0.1:30304")...)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got, want) || strings.Count(got, "lost ") > 1 {
			t.Errorf("%s: got\n%s\nwant once %q", words, got, want)
		}
	}
}
