package launch

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/mountns"
)

// FixedPaths returns what gives a program its directories at the paths that they have in containers, as in the original's: nothing
// unless the program, a file in its model directory, or what the user gives it (variables and arguments) names them. Others get no mount
// namespace, which has side effects; see mountns.Wrap. The error, of a program that names them, says why it can not have them here.
// model and data are absolute; data may be empty.
func FixedPaths(ctx context.Context, program, model, data string, given []string) ([]mountns.Bind, error) {
	named := path.Dir(engine.ModelDir) + "/"
	isGiven := slices.ContainsFunc(given, func(text string) bool { return strings.Contains(text, named) })
	if !isGiven && !mentions(program, model, named) {
		return nil, nil
	}
	var binds []mountns.Bind
	for _, b := range []mountns.Bind{{Source: data, Target: engine.DataDir, ReadOnly: true}, {Source: model, Target: engine.ModelDir}} {
		if b.Source != "" && !same(b.Source, b.Target) {
			binds = append(binds, b)
		}
	}
	if len(binds) == 0 {
		return nil, nil
	}
	if err := mountns.Check(ctx, binds); err != nil {
		return nil, fmt.Errorf("the program names %s, which it has in containers only, as this machine makes no mount namespace for it (%w): if it opens files there use --runtime docker", named, err)
	}
	return binds, nil
}

// same reports whether two paths are one directory, as where this daemon runs in a container.
func same(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}
