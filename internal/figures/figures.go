package figures

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/swarmd/swarmd/internal/text"
)

// Figures are those of one node. What is nil was not found out.
type Figures struct {
	TakenAt     string   `json:"taken_at" doc:"when, by the node's clock; RFC 3339, UTC"`
	UpSeconds   *uint64  `json:"up_seconds" doc:"for how long the daemon has run"`
	CPUs        *uint64  `json:"cpus" doc:"processors that the daemon may use"`
	Load1       *float64 `json:"load_1" doc:"processes that run or wait to on its machine, mean of the last minute"`
	Load5       *float64 `json:"load_5" doc:"the same of 5 minutes"`
	Load15      *float64 `json:"load_15" doc:"the same of 15 minutes"`
	CPUSeconds  *float64 `json:"daemon_cpu_seconds" doc:"time of processors that the daemon has taken since it began, without its programs"`
	MemoryTotal *uint64  `json:"memory_total_bytes" doc:"of its machine"`
	MemoryFree  *uint64  `json:"memory_available_bytes" doc:"of it that programs can have without swapping"`
	MemoryOwn   *uint64  `json:"daemon_memory_bytes" doc:"that the daemon has in memory (RSS), without its programs"`
	GPUs        []GPU    `json:"gpus" doc:"that the daemon sees, at most 64"`
	DiskTotal   *uint64  `json:"disk_total_bytes" doc:"of the file system that the node's state directory is on"`
	DiskFree    *uint64  `json:"disk_free_bytes" doc:"of it that the daemon can have"`
	StreamsOut  *uint64  `json:"streams_opened_by_it" doc:"open streams between this node and others; calls of the API are none"`
	StreamsIn   *uint64  `json:"streams_opened_by_others" doc:"the same"`
	Peers       *uint64  `json:"connected_peers" doc:"node keys with which it has a connection for such streams, those of operators among them"`
}

// GPU is one of them.
type GPU struct {
	Name        string  `json:"name" doc:"as its driver calls it; its number where that does not answer"`
	MemoryTotal *uint64 `json:"memory_total_bytes" doc:"of the GPU"`
	MemoryUsed  *uint64 `json:"memory_used_bytes" doc:"of it, by all programs"`
	BusyPercent *uint64 `json:"busy_percent" doc:"of the last moment, in which it computed"`
}

// Bounds of what a node may say of itself.
const (
	MaxSize  = 32 << 10 // bytes, as they travel
	maxGPUs  = 64
	maxName  = 128 // bytes
	maxCount = 1 << 53
	maxLoad  = 1 << 20
)

var (
	errForm  = errors.New("they have another form than this version reads")
	errRange = errors.New("they have a number that can't be right, such as more memory that is free than there is")
)

// Read reads what a node says of itself, and holds it to its bounds. What a later version says besides is left out.
func Read(sent []byte) (Figures, error) {
	var f Figures
	if len(sent) > MaxSize {
		return Figures{}, fmt.Errorf("they have more than %d bytes", MaxSize)
	}
	if json.Unmarshal(sent, &f) != nil {
		return Figures{}, errForm // the words of what is wrong would be the node's
	}
	at, err := time.Parse(time.RFC3339, f.TakenAt)
	if err != nil || at.Year() < 1970 || len(f.GPUs) > maxGPUs {
		return Figures{}, errForm
	}
	f.TakenAt = at.UTC().Format(time.RFC3339)
	if !f.plausible() {
		return Figures{}, errRange
	}
	f.GPUs = append([]GPU{}, f.GPUs...) // never null
	for i := range f.GPUs {
		f.GPUs[i].Name = text.Clip(text.Line(f.GPUs[i].Name), maxName)
	}
	return f, nil
}

// plausible reports whether all numbers are within their bounds.
func (f *Figures) plausible() bool {
	counts := []*uint64{f.UpSeconds, f.CPUs, f.MemoryOwn, f.StreamsOut, f.StreamsIn, f.Peers}
	parts := [][2]*uint64{{f.MemoryFree, f.MemoryTotal}, {f.DiskFree, f.DiskTotal}}
	for _, g := range f.GPUs {
		parts = append(parts, [2]*uint64{g.MemoryUsed, g.MemoryTotal})
		if g.BusyPercent != nil && *g.BusyPercent > 100 {
			return false
		}
	}
	for _, p := range parts {
		if counts = append(counts, p[0], p[1]); p[0] != nil && p[1] != nil && *p[0] > *p[1] {
			return false
		}
	}
	means := []*float64{f.Load1, f.Load5, f.Load15}
	return !slices.ContainsFunc(counts, func(n *uint64) bool { return n != nil && *n > maxCount }) &&
		!slices.ContainsFunc(means, func(x *float64) bool { return x != nil && (*x < 0 || *x > maxLoad) }) &&
		(f.CPUSeconds == nil || *f.CPUSeconds >= 0 && *f.CPUSeconds <= maxCount)
}
