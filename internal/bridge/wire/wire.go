// Package wire holds the JSON bodies that the daemon and an ML program exchange over the bridge's unix socket. It is pure
// data: both ends import it and neither imports the other. docs/reference/bridge.md is its specification.
package wire

// Names that both ends must agree on.
const (
	// APIVersion is the version of routes and bodies, given in OpenResponse.
	APIVersion = 1
	// SocketName is the socket's file name within the bridge directory.
	SocketName = "bridge.sock"
	// LocalName is the slot that the program writes.
	LocalName = "local"
	// Merged0Name and Merged1Name take turns as the slot of the committed model.
	Merged0Name = "merged-0"
	Merged1Name = "merged-1"
	// EnvBridgeDir is the variable by which a program finds the bridge directory.
	EnvBridgeDir = "SWARM_BRIDGE_DIR"
	// DefaultContract is the contract of a program that names none.
	DefaultContract = "defaultbb.cqdb.sml.hpe"
	// WeightsSamples is OpenRequest.Weights of a program whose weights are numbers of samples.
	WeightsSamples = "samples"
)

// The routes of the bridge.
const (
	PathSession = "/v1/session"
	PathSync    = "/v1/sync"
	PathReport  = "/v1/report"
	PathClose   = "/v1/close"
	PathAbort   = "/v1/abort"
	PathStatus  = "/v1/status"
)

// Tensor describes one array of the model, in layout order.
type Tensor struct {
	Name  string  `json:"name"`
	DType string  `json:"dtype"`
	Shape []int64 `json:"shape"` // empty for a scalar
}

// OpenRequest is the body of POST /v1/session.
type OpenRequest struct {
	Contract      string   `json:"contract,omitempty"` // empty: DefaultContract
	MinPeers      int      `json:"min_peers"`          // at least 1
	SyncFrequency int      `json:"sync_frequency"`     // batches between merges, at least 1
	Adaptive      bool     `json:"adaptive"`
	CheckinMode   string   `json:"checkin_mode,omitempty"` // snapshot, active, inactive or once; empty: the program chooses none
	Weight        int      `json:"weight,omitempty"`       // 0 to 100; absent: 100. 0 takes part and contributes nothing
	Weights       string   `json:"weights,omitempty"`      // samples: weights are how many samples a peer has, up to 2^30; absent at open: 1
	Method        string   `json:"method,omitempty"`       // name and parameters, any spelling; empty: the contract's
	TotalEpochs   int      `json:"total_epochs,omitempty"` // 0: not known
	Tensors       []Tensor `json:"tensors"`
	Client        string   `json:"client,omitempty"`    // name and version of the client library
	Framework     string   `json:"framework,omitempty"` // pyt, tf, numpy
	Verify        bool     `json:"verify,omitempty"`    // give SHA256 also of a large model
}

// OpenResponse answers OpenRequest.
type OpenResponse struct {
	Session      string  `json:"session"`
	Local        string  `json:"local"` // path of the program's slot, relative to the bridge directory or absolute
	Bytes        int64   `json:"bytes"` // length of each slot
	LayoutDigest string  `json:"layout_digest"`
	Offsets      []int64 `json:"offsets"` // of each tensor, in bytes
	Peer         string  `json:"peer"`
	APIVersion   int     `json:"api_version"`
}

// Counts are what a program tells of its training since its last Sync. All may be left out.
type Counts struct {
	Batches     *int64 `json:"batches,omitempty"`
	Samples     *int64 `json:"samples,omitempty"`      // left out where batches are not: not known
	DataSamples *int64 `json:"data_samples,omitempty"` // in one pass through the program's data
}

// SyncRequest is the body of POST /v1/sync. Seq counts 1, 2, 3, …; the same request may be repeated.
type SyncRequest struct {
	Session string `json:"session"`
	Seq     uint64 `json:"seq"`
	Weight  int    `json:"weight,omitempty"` // 0 to 100; absent: the weight given at open; number of samples: as OpenRequest.Weights says, and needed from the second Sync on
	Counts
}

// SyncResponse answers SyncRequest and CloseRequest. While Pending is true only Waiting and Warnings have a meaning, and for Close
// Round and Slot when a newer model was committed meanwhile. A node's record of its session keeps the last answer, for a program that
// asks again; Pending, Waiting, SHA256 and Warnings are the bridge's to add.
type SyncResponse struct {
	Pending      bool     `json:"pending"`
	Waiting      string   `json:"waiting,omitempty"`
	Round        uint64   `json:"round"`
	Slot         string   `json:"slot"` // path as in OpenResponse.Local
	Interval     int      `json:"interval"`
	TrainingOver bool     `json:"training_over"`
	Contributed  bool     `json:"contributed"`
	Skipped      bool     `json:"skipped"` // there is no new model: go on with your own weights
	Digest       string   `json:"digest"`
	SHA256       string   `json:"sha256,omitempty"` // hex, of the slot's bytes; empty: not of a large model that nobody asked it for
	Participants []string `json:"participants"`
	Warnings     []string `json:"warnings"`
}

// ReportRequest is the body of POST /v1/report. Loss and Metric are nil when they were not measured. MetricName is empty where the program
// does not say what its metric is called.
type ReportRequest struct {
	Session     string   `json:"session"`
	Round       uint64   `json:"round"` // the model they were measured on; 0: local training
	Loss        *float64 `json:"loss"`
	Metric      *float64 `json:"metric"`
	MetricName  string   `json:"metric_name,omitempty"`
	EpochsDone  int      `json:"epochs_done"`
	TotalEpochs int      `json:"total_epochs"`
}

// CloseRequest is the body of POST /v1/close.
type CloseRequest struct {
	Session string `json:"session"`
	Seq     uint64 `json:"seq"`              // of the last Sync
	Mode    string `json:"mode,omitempty"`   // as OpenRequest.CheckinMode; empty: as opened
	Weight  *int   `json:"weight,omitempty"` // number of samples; absent: that of the last Sync
	Counts
}

// AbortRequest is the body of POST /v1/abort.
type AbortRequest struct {
	Session string `json:"session"`
	Reason  string `json:"reason"`
}

// ErrorResponse is the body of every answer that is not 200.
type ErrorResponse struct {
	Error ErrorBody `json:"error"`
}

// ErrorBody says what went wrong. Programs decide on Reason, people read the rest.
type ErrorBody struct {
	Reason  string `json:"reason"` // UPPER_SNAKE
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
}
