package recovery

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/swarmd/swarmd/consensus/store"
)

// FoundUntil is Found that ends with an error at a point.
func FoundUntil(ctx context.Context, cfg Config, at string, with error) error {
	cfg.reached = func(point string) error {
		if point == at {
			return with
		}
		return nil
	}
	_, err := Found(ctx, cfg)
	return err
}

// FoundWith is Found on other stores.
func FoundWith(ctx context.Context, cfg Config, change func(*store.Stores)) error {
	name, dir, err := open(cfg.Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	stores, closers, err := store.Open(filepath.Join(cfg.Dir, "raft"), cfg.Log)
	if err != nil {
		return err
	}
	change(&stores)
	_, err = found(ctx, cfg, name, stores)
	return errors.Join(err, closers.Close())
}
