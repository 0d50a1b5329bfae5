package swci

import (
	"errors"
	"testing"

	"connectrpc.com/connect"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// TestNoMajorityIsOneExitCode: the one that is, and the one that would be if the caller had its way.
func TestNoMajorityIsOneExitCode(t *testing.T) {
	for reason, code := range map[string]connect.Code{
		client.ReasonNoQuorum: connect.CodeUnavailable, client.ReasonNoLeader: connect.CodeUnavailable, client.ReasonQuorum: connect.CodeFailedPrecondition,
	} {
		err := apiError(&client.Error{Code: code, Reason: reason, Message: "too few"})
		var e *exit.Error
		if !errors.As(err, &e) || e.Status != exit.NoLeader {
			t.Errorf("%s ends with %v", reason, err)
		}
	}
}
