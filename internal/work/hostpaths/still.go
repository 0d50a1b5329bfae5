package hostpaths

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Resolver says where paths of a host lead.
type Resolver interface {
	// Resolve returns where each name leads. An error is why that can't be said now; it ends soon when ctx does.
	Resolve(ctx context.Context, names []string) (map[string]Lead, error)
}

// Bindable returns where paths lead that are to be bound now: those that a task names, which must lead to where they led when they were
// judged, and those that the host's owner has chosen for it. It is to be asked just before. None of them may lie in one that the task names,
// nor the other way round: a program that has the outer one could exchange the inner one before that is bound for the next program. With no
// path of the task's it returns nothing.
func Bindable(ctx context.Context, r Resolver, judged map[string]string, owned []string) (map[string]string, error) {
	if len(judged) == 0 {
		return nil, nil //nolint:nilnil // nothing is followed
	}
	names := slices.Sorted(maps.Keys(judged))
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(names, owned))))
	if len(all) > maxPaths {
		return nil, fmt.Errorf("the task and this host's profile name %d paths, and at most %d are followed: name fewer directories in the task", len(all), maxPaths)
	}
	now, err := r.Resolve(ctx, all)
	if err != nil {
		return nil, err
	}
	leads, others := map[string]string{}, make([]string, 0, len(owned))
	for _, name := range owned {
		if why := now[name].Why; why != "" {
			return nil, fmt.Errorf("directory %.200q, which this host's profile names: %s", name, why)
		}
		leads[name] = now[name].At
		others = append(others, leads[name])
	}
	for _, name := range names {
		at := judged[name]
		if now[name] != (Lead{At: at}) {
			return nil, fmt.Errorf("path %.200q leads elsewhere than when this host's policy was asked: assign the task again", name)
		}
		leads[name] = at
		for _, other := range others {
			if at != other && Overlap(at, other) {
				return nil, fmt.Errorf("path %.200q lies in another that is bound, or the other one in it, so that a program could exchange it before it is bound for the next: name directories apart from each other", name)
			}
		}
		others = append(others, at)
	}
	return leads, nil
}

// Overlap reports whether two clean paths are the same, or one lies in the other.
func Overlap(a, b string) bool { return a == b || inside(a, b) || inside(b, a) }

// inside reports whether a clean path lies in a directory, and is another.
func inside(p, dir string) bool {
	return p != dir && strings.HasPrefix(p, strings.TrimSuffix(path.Clean(dir), "/")+"/")
}
