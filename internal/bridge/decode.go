package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/merge"
)

// Bounds of what a program may send.
const (
	MaxOpenBody  = 8 << 20  // bytes of a session's request, which lists the tensors
	MaxOtherBody = 64 << 10 // bytes of every other request
	maxPeers     = 10_000
	maxCount     = math.MaxInt32
	maxTrained   = 1 << 53 // batches and samples: what a JSON number holds exactly everywhere
	maxText      = 1024
	maxMethod    = 256
	maxShare     = 100
	maxSamples   = 1 << 30 // of one peer's data, where weights are that
)

// DecodeOpen reads and validates the body of POST /v1/session. It fills in defaults, and makes the layout of
// the tensors. Its errors are ReasonedErrors that name the field.
func DecodeOpen(body []byte) (wire.OpenRequest, *merge.Layout, error) {
	req := wire.OpenRequest{Contract: wire.DefaultContract, Weight: unset, SyncFrequency: 1}
	if err := decode(body, &req); err != nil {
		return wire.OpenRequest{}, nil, err
	}
	if req.Contract == "" {
		req.Contract = wire.DefaultContract
	}
	err := errors.Join(
		checkName("contract", req.Contract),
		checkRange("min_peers", req.MinPeers, 1, maxPeers),
		checkRange("sync_frequency", req.SyncFrequency, 1, maxCount),
		checkWeights(&req),
		checkRange("total_epochs", req.TotalEpochs, 0, maxCount),
		checkMode("checkin_mode", req.CheckinMode),
		checkMethod(req.Method),
		checkText("client", req.Client),
		checkText("framework", req.Framework),
	)
	if err != nil {
		return wire.OpenRequest{}, nil, badRequest("%s", lineOf(err))
	}
	layout, err := layoutOf(req.Tensors)
	return req, layout, err
}

// unset is the weight of a request that names none.
const unset = math.MinInt

// Weights are those that a session's syncs have: without one of their own, and at most.
type Weights struct{ Default, Max int }

// samples reports whether weights are numbers of samples.
func (w Weights) samples() bool { return w.Max > maxShare }

func maxWeight(weights string) int {
	if weights == wire.WeightsSamples {
		return maxSamples
	}
	return maxShare
}

// checkWeights holds a session's weight to what its weights are, and fills it in. One that does not know yet how many samples its data has
// counts as 1.
func checkWeights(req *wire.OpenRequest) error {
	if req.Weights != "" && req.Weights != wire.WeightsSamples {
		return fmt.Errorf("field weights: %q is not %s", text.Clip(req.Weights, maxText), wire.WeightsSamples)
	}
	most := maxWeight(req.Weights)
	if req.Weight == unset {
		req.Weight = maxShare
		if req.Weights == wire.WeightsSamples {
			req.Weight = 1
		}
	}
	return checkRange("weight", req.Weight, 0, most)
}

func layoutOf(tensors []wire.Tensor) (*merge.Layout, error) {
	list := make([]merge.Tensor, len(tensors))
	for i, t := range tensors {
		d, err := merge.ParseDType(t.DType)
		if err != nil {
			return nil, &Error{ReasonBadRequest, fmt.Sprintf("tensors[%d] %q: %v", i, text.Clip(t.Name, maxText), err), "leave this tensor out or convert it"}
		}
		list[i] = merge.Tensor{Name: t.Name, DType: d, Shape: t.Shape}
	}
	l, err := merge.NewLayout(list)
	if err != nil {
		return nil, badRequest("tensors: %s", lineOf(err))
	}
	return l, nil
}

// DecodeSync reads and validates the body of POST /v1/sync. An absent weight becomes the default one, except that a session whose weights are
// numbers of samples names them from its second Sync on.
func DecodeSync(body []byte, w Weights) (wire.SyncRequest, error) {
	req := wire.SyncRequest{Weight: unset}
	if err := decode(body, &req); err != nil {
		return wire.SyncRequest{}, err
	}
	if req.Weight == unset && (req.Seq <= 1 || !w.samples()) {
		req.Weight = w.Default
	}
	if req.Weight == unset {
		return req, badRequest("field weight: give the number of this peer's samples with each sync, as the session's weights are that")
	}
	return req, check(checkSession(req.Session), checkSeq(req.Seq, 1), checkRange("weight", req.Weight, 0, w.Max), checkCounts(req.Counts))
}

// DecodeReport reads and validates the body of POST /v1/report.
func DecodeReport(body []byte) (wire.ReportRequest, error) {
	var req wire.ReportRequest
	if err := decode(body, &req); err != nil {
		return wire.ReportRequest{}, err
	}
	return req, check(checkSession(req.Session), checkRange("epochs_done", req.EpochsDone, 0, maxCount),
		checkRange("total_epochs", req.TotalEpochs, 0, maxCount), checkMetricName(req.MetricName))
}

// DecodeClose reads and validates the body of POST /v1/close.
func DecodeClose(body []byte, w Weights) (wire.CloseRequest, error) {
	var req wire.CloseRequest
	if err := decode(body, &req); err != nil {
		return wire.CloseRequest{}, err
	}
	var weight error
	if req.Weight != nil && w.samples() {
		weight = checkRange("weight", *req.Weight, 0, w.Max)
	} else if req.Weight != nil {
		weight = errors.New("field weight: only a session whose weights are samples names one at its close")
	}
	return req, check(checkSession(req.Session), checkSeq(req.Seq, 0), checkMode("mode", req.Mode), weight, checkCounts(req.Counts))
}

func checkCounts(c wire.Counts) error {
	for _, x := range []struct {
		field string
		n     *int64
	}{{"batches", c.Batches}, {"samples", c.Samples}, {"data_samples", c.DataSamples}} {
		if x.n != nil && (*x.n < 0 || *x.n > maxTrained) {
			return fmt.Errorf("field %s: %d is not between 0 and %d", x.field, *x.n, int64(maxTrained))
		}
	}
	return nil
}

// DecodeAbort reads and validates the body of POST /v1/abort. A long reason is cut, so that giving up never fails for it.
func DecodeAbort(body []byte) (wire.AbortRequest, error) {
	var req wire.AbortRequest
	if err := decode(body, &req); err != nil {
		return wire.AbortRequest{}, err
	}
	req.Reason = text.Clip(lineOf(errors.New(req.Reason)), maxText)
	return req, check(checkSession(req.Session))
}

func decode(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong) && wrong.Field != "":
		return badRequest("field %s: got %s, want %s", text.Clip(wrong.Field, maxText), text.Clip(wrong.Value, maxText), wrong.Type)
	case errors.As(err, &wrong):
		return badRequest("body is a JSON %s, want an object", text.Clip(wrong.Value, maxText))
	}
	return badRequest("body is not JSON: %s", text.Clip(lineOf(err), maxText))
}

func check(errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return badRequest("%s", lineOf(err))
	}
	return nil
}

func checkRange(field string, v, low, high int) error {
	if v < low || v > high {
		return fmt.Errorf("field %s: %d is not between %d and %d", field, v, low, high)
	}
	return nil
}

func checkSeq(seq, low uint64) error {
	if seq < low || seq > math.MaxInt64 {
		return fmt.Errorf("field seq: %d, want %d or more", seq, low)
	}
	return nil
}

func checkSession(id string) error {
	if id == "" || len(id) > 64 {
		return errors.New("field session: want the id that POST /v1/session returned")
	}
	return nil
}

// checkMode holds a check-in mode to those that there are. Empty, the program chose none.
func checkMode(field, mode string) error {
	if mode == "" || state.ValidCheckin(mode) {
		return nil
	}
	return fmt.Errorf("field %s: %q is not snapshot, active, inactive or once", field, text.Clip(mode, maxText))
}

// checkMethod bounds a method's text; what it means is the session's to say. Empty, the contract's rules decide.
func checkMethod(s string) error {
	if len(s) > maxMethod || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("field method: want at most %d bytes without control characters", maxMethod)
	}
	return nil
}

// checkName holds the rule for names of contracts.
func checkName(field, name string) error {
	if !naming.ValidContract(name) {
		return fmt.Errorf("field %s: %q is not a name of 1 to 128 of A-Z a-z 0-9 . _ -, beginning with a letter or digit", field, text.Clip(name, maxText))
	}
	return nil
}

// checkMetricName bounds what a metric is called: all who look at the training are shown it.
func checkMetricName(s string) error {
	if len(s) > round.MaxMetricName || text.Printable(s, ' ') != s {
		return fmt.Errorf("field metric_name: want at most %d bytes of printable text", round.MaxMetricName)
	}
	return nil
}

func checkText(field, s string) error {
	if len(s) > maxText || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) {
		return fmt.Errorf("field %s: want at most %d bytes without control characters", field, maxText)
	}
	return nil
}

func lineOf(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x7f }), "; ")
}
