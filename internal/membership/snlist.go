package membership

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/client"
)

const (
	snListFile = "sns.json"
	maxSNList  = 64 << 10 // bytes that are read
	maxSNsKept = 64
)

// SNList is the file in a node's state directory with the SNs that it learned last: any of those that it was started with may be
// down when it starts again.
type SNList struct{ path string }

// OpenSNList names the list of a state directory. Nothing is opened yet.
func OpenSNList(stateDir string) SNList { return SNList{filepath.Join(stateDir, snListFile)} }

// keptSNs is the file's content.
type keptSNs struct {
	SwarmID string      `json:"swarm_id"`
	SNs     []client.SN `json:"sns"`
}

// Read returns the SNs of a swarm, none where the list is of another one or is not there. An error says that the file is damaged.
func (l SNList) Read(swarmID string) ([]client.SN, error) {
	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxSNList+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	kept, err := parseSNList(raw)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", l.path, err)
	}
	if swarmID == "" || kept.SwarmID != swarmID {
		return nil, nil // who forgot the swarm forgot its SNs
	}
	return kept.SNs, nil
}

func parseSNList(raw []byte) (kept keptSNs, err error) {
	if len(raw) > maxSNList {
		return kept, fmt.Errorf("more than %d bytes", maxSNList)
	}
	if err := json.Unmarshal(raw, &kept); err != nil {
		return kept, err
	}
	if err := identity.ValidSwarmID(kept.SwarmID); err != nil {
		return kept, err
	}
	if len(kept.SNs) > maxSNsKept {
		return kept, fmt.Errorf("%d SNs, more than %d", len(kept.SNs), maxSNsKept)
	}
	for _, sn := range kept.SNs {
		if err := checkSN(sn); err != nil {
			return kept, err
		}
	}
	return kept, nil
}

// checkSN fails for what can be no SN's address, or name if there is one.
func checkSN(sn client.SN) error {
	if hostPort, err := address.HostPort(sn.Address, ""); err != nil || hostPort != sn.Address { // without a port it is none
		return fmt.Errorf("%.80q is no address of an SN", sn.Address)
	}
	if sn.Name != "" {
		return naming.CheckNode(sn.Name)
	}
	return nil
}

// Write replaces the list. What Read would refuse is left out, and a list without any SN replaces none.
func (l SNList) Write(swarmID string, sns []client.SN) error {
	kept := keptSNs{SwarmID: swarmID}
	for _, sn := range sns {
		if len(kept.SNs) < maxSNsKept && checkSN(sn) == nil {
			kept.SNs = append(kept.SNs, sn)
		}
	}
	if len(kept.SNs) == 0 {
		return nil
	}
	raw, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Replace(l.path, append(raw, '\n'), 0o600)
}
