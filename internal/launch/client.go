package launch

import (
	"fmt"
	"path/filepath"
	"strings"
)

// The packages by which a program speaks with its node.
const (
	ClientAuto     = "auto"          // OriginalClient where a program would import that one, else OwnClient
	ClientOwn      = "swarmlearning" // this project's Python package
	ClientOriginal = "original"      // that of the product which this project re-creates
)

// ParseClient reads the name of a client in any case; empty: ClientAuto.
func ParseClient(name string) (string, error) {
	switch c := strings.ToLower(name); c {
	case "":
		return ClientAuto, nil
	case ClientAuto, ClientOwn, ClientOriginal:
		return c, nil
	}
	return "", fmt.Errorf("--ml-client %s: want auto, original or swarmlearning", name)
}

// OriginalBeside returns the folder of the original's client if it lies beside a program, which would import it whatever PYTHONPATH says.
func OriginalBeside(folder string) (string, bool) {
	found := shadowing(folder)
	if found == "" {
		return "", false
	}
	for _, below := range []string{"", "*"} {
		if match, _ := filepath.Glob(filepath.Join(found, below, "swifrpc_pb2.py")); len(match) > 0 { // messages of its bridge
			return found, true
		}
	}
	return "", false
}
