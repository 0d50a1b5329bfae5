package bridge_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/text"
)

// Weights of sessions whose weights are shares, and numbers of samples.
var (
	shares  = bridge.Weights{Default: 100, Max: 100}
	samples = bridge.Weights{Default: 1, Max: 1 << 30}
)

// TestWeights: weights that are numbers of samples have another bound, and a sync that names none has one only before anything is trained.
func TestWeights(t *testing.T) {
	for _, tt := range []struct {
		fields string
		weight int
		err    string
	}{
		{``, 100, ""},
		{`,"weight":0`, 0, ""},
		{`,"weight":101`, 0, "field weight: 101 is not between 0 and 100"},
		{`,"weights":"samples"`, 1, ""},
		{`,"weights":"samples","weight":0`, 0, ""},
		{`,"weights":"samples","weight":1073741824`, 1 << 30, ""},
		{`,"weights":"samples","weight":1073741825`, 0, "between 0 and 1073741824"},
		{`,"weights":"samples","weight":-1`, 0, "between 0 and 1073741824"},
		{`,"weights":"bytes"`, 0, `field weights: "bytes" is not samples`},
	} {
		req, _, err := bridge.DecodeOpen([]byte(`{"min_peers":2,"tensors":[{"name":"w","dtype":"float32","shape":[2]}]` + tt.fields + `}`))
		if !says(err, tt.err) || err == nil && req.Weight != tt.weight {
			t.Errorf("open %s: %d, %v", tt.fields, req.Weight, err)
		}
	}
	for _, tt := range []struct {
		fields string
		w      bridge.Weights
		weight int
		err    string
	}{
		{`"seq":2`, shares, 100, ""},
		{`"seq":1`, samples, 1, ""},
		{`"seq":2,"weight":300`, samples, 300, ""},
		{`"seq":2,"weight":300`, shares, 0, "between 0 and 100"},
		{`"seq":2`, samples, 0, "field weight: give the number of this peer's samples"},
		{`"seq":2,"weight":1073741825`, samples, 0, "between 0 and 1073741824"},
	} {
		req, err := bridge.DecodeSync([]byte(`{"session":"s",`+tt.fields+`}`), tt.w)
		if !says(err, tt.err) || err == nil && req.Weight != tt.weight {
			t.Errorf("sync %s: %d, %v", tt.fields, req.Weight, err)
		}
	}
	closing, err := bridge.DecodeClose([]byte(`{"session":"s","seq":2,"weight":30}`), samples)
	if err != nil || *closing.Weight != 30 {
		t.Errorf("close: %+v, %v", closing, err)
	}
	for bad, w := range map[string]bridge.Weights{"30": shares, "1073741825": samples} {
		if _, err := bridge.DecodeClose([]byte(`{"session":"s","seq":2,"weight":`+bad+`}`), w); err == nil {
			t.Errorf("close takes the weight %s of %+v", bad, w)
		}
	}
}

// TestMetricName: what a metric is called is short, and one line of what prints.
func TestMetricName(t *testing.T) {
	for name, good := range map[string]bool{"": true, "Accuracy": true, "F1 of class ü": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, `a\nb`: false, `\u001b[2J`: false, `\u202e`: false} {
		r, err := bridge.DecodeReport([]byte(`{"session":"s","metric":0.5,"metric_name":"` + name + `"}`))
		if (err == nil) != good || good && r.MetricName != name || !good && !says(err, "field metric_name: want at most 64 bytes") {
			t.Errorf("%q: %+v, %v", name, r, err)
		}
	}
}

// says reports whether an error has this in it; empty: there is none.
func says(err error, text string) bool {
	return text == "" && err == nil || text != "" && err != nil && strings.Contains(err.Error(), text)
}

// FuzzDecode holds that any body is either taken within the bounds or refused with a reason, on one line.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(openBody))
	f.Add([]byte(`{"session":"s","seq":1,"weight":7,"mode":"active","reason":"x\ny","loss":1e300}`))
	f.Add([]byte(`{"session":"s","metric_name":"\u202eAccuracy"}`))
	f.Add([]byte(`{"session":5}`))
	f.Add([]byte("{\"\x00\""))
	f.Fuzz(func(t *testing.T, b []byte) {
		open, layout, err := bridge.DecodeOpen(b)
		refused(t, err)
		if err == nil && (open.Weight < 0 || open.Weight > 1<<30 || open.Weight > 100 && open.Weights != "samples" || open.MinPeers < 1 || open.Contract == "" || layout == nil) {
			t.Errorf("took %+v", open)
		}
		sync, err := bridge.DecodeSync(b, shares)
		refused(t, err)
		if err == nil && (sync.Weight < 0 || sync.Weight > 100 || sync.Seq == 0) {
			t.Errorf("took %+v", sync)
		}
		report, err := bridge.DecodeReport(b)
		refused(t, err)
		if err == nil && (len(report.MetricName) > 64 || text.Printable(report.MetricName, ' ') != report.MetricName) {
			t.Errorf("took %q", report.MetricName)
		}
		_, err = bridge.DecodeClose(b, shares)
		refused(t, err)
		abort, err := bridge.DecodeAbort(b)
		refused(t, err)
		if err == nil && (strings.ContainsRune(abort.Reason, '\n') || len(abort.Reason) > 1100) {
			t.Errorf("took %q", abort.Reason)
		}
	})
}

func refused(t *testing.T, err error) {
	t.Helper()
	var r bridge.ReasonedError
	if err != nil && (!errors.As(err, &r) || r.Reason() != bridge.ReasonBadRequest || strings.ContainsAny(err.Error(), "\n\x00")) {
		t.Errorf("refusal without a clear reason: %q", err)
	}
}

// TestCounts: what a program tells of its training may be left out, and is bounded.
func TestCounts(t *testing.T) {
	sync, err := bridge.DecodeSync([]byte(`{"session":"s","seq":1,"batches":4,"samples":0,"data_samples":9007199254740992}`), shares)
	if err != nil || *sync.Batches != 4 || *sync.Samples != 0 || *sync.DataSamples != 1<<53 {
		t.Errorf("got %+v, %v", sync, err)
	}
	if sync, err = bridge.DecodeSync([]byte(`{"session":"s","seq":1}`), shares); err != nil || sync.Batches != nil || sync.Samples != nil || sync.DataSamples != nil {
		t.Errorf("nothing is told: %+v, %v", sync, err)
	}
	for _, bad := range []string{`"batches":-1`, `"samples":9007199254740993`, `"data_samples":1e30`, `"batches":"4"`} {
		if _, err := bridge.DecodeSync([]byte(`{"session":"s","seq":1,`+bad+`}`), shares); err == nil {
			t.Errorf("sync takes %s", bad)
		}
		if _, err := bridge.DecodeClose([]byte(`{"session":"s","seq":1,`+bad+`}`), shares); err == nil {
			t.Errorf("close takes %s", bad)
		}
	}
}
