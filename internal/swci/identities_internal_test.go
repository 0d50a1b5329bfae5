package swci

import (
	"context"
	"testing"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire"
)

// closing counts how often it is closed.
type closing struct {
	identity.Provider
	closed *int
}

func (c closing) Close() error {
	*c.closed++
	return nil
}

// A command that asks for its identity twice, as get model does for SNs and holder, has it from one agent: a second one in the same
// directory would wait for the end of the first. A prompt keeps it beyond the command.
func TestOneAgentForACommand(t *testing.T) {
	opened, closed := 0, 0
	own := &identities{open: func(context.Context, Context) (identity.Provider, identity.Domains, error) {
		opened++
		return closing{closed: &closed}, identity.Domains{}, nil
	}}
	target := Context{agent: &spire.AgentConfig{}, agentOptions: "of one server"}
	prompt := own.keep()
	command := own.keep()
	for range 2 {
		source, _, err := own.get(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		_ = source.Close()
	}
	if command(); opened != 1 || closed != 0 {
		t.Errorf("a command at the prompt has opened %d and closed %d identities, want 1 and 0", opened, closed)
	}
	if prompt(); closed != 1 {
		t.Errorf("the prompt's end has closed %d identities, want 1", closed)
	}
}
