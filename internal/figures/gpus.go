package figures

import (
	"bytes"
	"context"
	"encoding/csv"
	"os/exec"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/internal/text"
)

// query is what the driver is asked of each GPU.
const query = "--query-gpu=index,uuid,name,memory.total,memory.used,utilization.gpu"

// maxAnswer bounds what is read of the driver's answer, in bytes.
const maxAnswer = 64 << 10

// askDriver asks the driver of NVIDIA's GPUs; what it says is nothing if it is not there, or takes too long.
func askDriver() []byte {
	ctx, cancel := context.WithTimeout(context.Background(), 2*answerTimeout)
	defer cancel()
	var out bounded
	cmd := exec.CommandContext(ctx, "nvidia-smi", query, "--format=csv,noheader,nounits")
	cmd.Stdout, cmd.WaitDelay = &out, answerTimeout
	if cmd.Run() != nil {
		return nil
	}
	return out.Bytes()
}

// bounded keeps the first of what is written to it.
type bounded struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	_, _ = b.Buffer.Write(p[:min(len(p), maxAnswer-b.Len())]) // it never fails
	return len(p), nil
}

// seenBy are the GPUs of these names, which are numbers or UUIDs, as the driver tells of them.
func seenBy(names []string, said []driven) []GPU {
	all := []GPU{}
	for _, name := range names[:min(len(names), maxGPUs)] {
		g := GPU{Name: name}
		for _, s := range said {
			if s.number == name || strings.HasPrefix(name, "GPU-") && strings.HasPrefix(s.uuid, name) {
				g = s.GPU
			}
		}
		all = append(all, g)
	}
	return all
}

// driven is a GPU as the driver tells of it.
type driven struct {
	GPU

	number, uuid string
}

// readDriver reads the driver's answer. What it does not know of a GPU it writes in brackets.
func readDriver(answer []byte) (all []driven) {
	r := csv.NewReader(bytes.NewReader(answer))
	r.TrimLeadingSpace, r.FieldsPerRecord = true, 6
	for len(all) < maxGPUs {
		row, err := r.Read()
		if err != nil { // its end, or a line of another form
			return all
		}
		all = append(all, driven{
			GPU:    GPU{Name: text.Clip(text.Line(row[2]), maxName), MemoryTotal: mebibytes(row[3]), MemoryUsed: mebibytes(row[4]), BusyPercent: naturalIn(row[5], 100)},
			number: row[0], uuid: row[1],
		})
	}
	return all
}

func mebibytes(s string) *uint64 {
	n := naturalIn(s, maxCount>>20)
	if n == nil {
		return nil
	}
	return new(*n << 20)
}

// naturalIn reads a number that is at most so large; nil: there is none.
func naturalIn(s string, most uint64) *uint64 {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 64)
	if err != nil || n > most {
		return nil
	}
	return &n
}
