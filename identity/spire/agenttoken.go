package spire

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl"
	"github.com/hashicorp/hcl/hcl/ast"

	"github.com/swarmd/swarmd/identity/spire/attestor"
	"github.com/swarmd/swarmd/internal/atomicfile"
)

// writeConf writes the configuration that the agent reads and returns its path, and whether the token is in it: every user of the
// machine can read a command line. Without a token the user's own file is used as it is, and so is one in JSON.
func (s *agentSetup) writeConf(token string) (path string, hasToken bool, err error) {
	var text string
	if file := s.cfg.ConfigFile; file == "" {
		text, err = s.defaultConf(token)
	} else {
		if token == "" {
			return file, false, nil
		}
		text, err = confWithToken(file, token, switched(s.cfg.Args, "expandEnv"))
		if text == "" && err == nil {
			return file, false, nil
		}
	}
	if err != nil {
		return "", false, err
	}
	path = filepath.Join(s.cfg.StateDir, "agent.conf")
	return path, true, atomicfile.Replace(path, []byte(text), 0o600)
}

// confWithToken returns the user's configuration with a join token, which counts instead of one that is there already; "" if it has no
// block for the agent to put it in, or is JSON. With expandEnv variables of the environment are put in, as the agent does.
func confWithToken(file, token string, expandEnv bool) (out string, err error) {
	raw, err := readBounded(file)
	if err != nil {
		return "", fmt.Errorf("-config: %w", err)
	}
	text := strings.ReplaceAll(string(raw), "\r\n", "\n") // as the parser counts
	if expandEnv {
		text = expand(text) // Else it may not parse: a port without quotation marks is no text.
	}
	err = attestor.Guard(func() error {
		parsed, err := hcl.Parse(text)
		if err != nil {
			return err
		}
		at := agentBlockEnd(parsed)
		if at > 0 && at < len(text) && text[at] == '}' {
			out = text[:at] + fmt.Sprintf("\n  join_token = %q\n", token) + text[at:]
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("-config %s: %w", file, err)
	}
	if expandEnv {
		out = strings.ReplaceAll(out, "$", "$$") // The agent expands it once more.
	}
	return out, nil
}

// agentBlockEnd returns where the block of the agent ends, the last one of several, which counts; 0: there is none.
func agentBlockEnd(f *ast.File) int {
	list, ok := f.Node.(*ast.ObjectList)
	if !ok {
		return 0
	}
	blocks := list.Filter("agent").Items
	if len(blocks) == 0 {
		return 0
	}
	block, ok := blocks[len(blocks)-1].Val.(*ast.ObjectType)
	if !ok {
		return 0
	}
	return block.Rbrace.Offset
}
