package runjob

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/work/secret"
)

// The files of a member: its keeper's order, the source's folder, the file that names all members, and what is known of its program.
const (
	orderFile    = "order.json"
	sourceDir    = "source"
	metadataFile = "nodes.json"
	outputFile   = "output.log"
	exitFile     = "exit"
	begunFile    = "begun"  // it is there once the keeper was started
	pythonDir    = "python" // beside the members' folders: the package of ranks
)

const maxOrder = 8 << 20 // bytes: an environment may name each of many members

// order is the input of the keeper of a member's process, and what a restarted host needs to know of it.
type order struct {
	Name  string   // of the member, in words
	Named string   `json:",omitempty"` // by its rank, as the other members call it; empty: as its number is
	Path  string   // of the program
	Args  []string // without its name
	Env   []string
	Dir   string
	Grace time.Duration // between the request to end and the end
	Ready question
	Lease string   // file
	GPUs  []string `json:",omitempty"` // that it alone has
	Leads string   `json:",omitempty"` // the address to which its host's name is to lead; empty: to that of the host
	Run   string   `json:",omitempty"` // folder of the run; empty: there is none
	Watch *watched `json:",omitempty"` // the keeper has no program, but containers

	Secrets secret.Dir `json:",omitempty"` // of the host, which has
	AsEnv   []string   `json:",omitempty"` // these, as variables
}

// write writes the order whole or not at all. Variables of a job are not to be read by every user of the host.
func (o order) write(dir string) error { return o.writeTo(filepath.Join(dir, orderFile)) }

func (o order) writeTo(file string) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return atomicfile.Replace(file, raw, 0o600)
}

func orderIn(dir string) (order, error) { return orderOf(filepath.Join(dir, orderFile)) }

func orderOf(file string) (o order, err error) {
	f, err := os.Open(file)
	if err != nil {
		return o, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxOrder+1))
	if err == nil && len(raw) > maxOrder {
		err = errors.New("it is too large")
	}
	if err == nil {
		err = json.Unmarshal(raw, &o)
	}
	if err != nil {
		return o, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return o, nil
}
