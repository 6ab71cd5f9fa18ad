package xds

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/waypoint-mesh/waypoint/api"
	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
)

const (
	// stateFile is the file in the state directory: a line that tells the format,
	// the SHA-256 of what follows, and a waypoint.v1.SavedConfiguration.
	stateFile   = "configuration"
	stateFormat = "waypoint configuration 1\n"
	// A change is saved at once, and the next one saveSoon later. As long as changes
	// go on, as those of endpoints do all the time, that time doubles up to
	// saveSeldom: the file is whole each time, and what is saved may be a little
	// older than what is in force, since the controller sends the difference. The
	// last change is saved at the end.
	saveSoon   = 100 * time.Millisecond
	saveSeldom = 5 * time.Second
)

var (
	errNoState  = errors.New("nothing was saved yet")
	errBadState = errors.New("not a configuration that can be served")
)

// saver keeps the configuration of a source in a file.
type saver struct {
	*Source
	path  string
	dirty chan struct{} // holds one: there is something to save
}

func newSaver(s *Source) *saver {
	return &saver{Source: s, path: filepath.Join(s.o.StateDir, stateFile), dirty: make(chan struct{}, 1)}
}

// load reads what was saved. The error is errNoState, or wraps errBadState, or
// says why the directory cannot be used.
func (s *saver) load() (*waypointv1.SavedConfiguration, error) {
	if err := os.MkdirAll(s.o.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("--state-dir: %w", err)
	}
	if err := writeFile(s.path+".probe", nil); err != nil {
		return nil, fmt.Errorf("--state-dir has to be a folder that we may write to: %w", err)
	}
	if err := os.Remove(s.path + ".probe"); err != nil {
		return nil, fmt.Errorf("--state-dir: %w", err)
	}
	content, err := os.ReadFile(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errNoState
	case err != nil:
		return nil, fmt.Errorf("--state-dir: %w", err)
	}
	saved, err := decodeState(content)
	if err == nil && saved.GetGateway() != s.o.Gateway {
		err = fmt.Errorf("%w: it is that of gateway %s", errBadState, saved.GetGateway())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	return saved, nil
}

// restored turns what was saved into changes.
func (s *Source) restored(saved *waypointv1.SavedConfiguration) (changes []change) {
	for _, r := range saved.GetResources() {
		changes = append(changes, s.read(r.GetTypeUrl(), r.GetName(), r.GetVersion(), r.GetValue()))
	}
	return changes
}

// changed says that there is something to save.
func (s *saver) changed() {
	select {
	case s.dirty <- struct{}{}:
	default: // it is known
	}
}

// run saves until ctx ends, and once more then if there is something to save.
func (s *saver) run(ctx context.Context) {
	for pause := saveSoon; ; {
		select {
		case <-s.dirty:
			s.save()
		case <-ctx.Done():
			select {
			case <-s.dirty:
				s.save()
			default:
			}
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if pause = min(2*pause, saveSeldom); len(s.dirty) == 0 {
			pause = saveSoon
		}
	}
}

// save writes the file. A failure is logged, and tried again with the next change.
func (s *saver) save() {
	if err := s.write(); err != nil {
		s.log.Error("the configuration was not saved, so a restart without the controller would serve an older one", "error", err)
	}
}

func (s *saver) write() error {
	content, err := encodeState(s.snapshot())
	if err != nil {
		return err
	}
	return writeFile(s.path, content)
}

// snapshot is what is in force, in the order of its keys.
func (s *saver) snapshot() *waypointv1.SavedConfiguration {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]api.Key, 0, len(s.held))
	for key := range s.held {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, api.Key.Compare)
	saved := &waypointv1.SavedConfiguration{Gateway: s.o.Gateway, Saved: timestamppb.Now()}
	for _, key := range keys {
		h := s.held[key]
		saved.Resources = append(saved.Resources, &waypointv1.SavedResource{
			TypeUrl: key.Type, Name: key.Name, Version: h.version, Value: h.value,
		})
	}
	return saved
}

func encodeState(saved *waypointv1.SavedConfiguration) ([]byte, error) {
	content := append([]byte(stateFormat), make([]byte, sha256.Size)...)
	content, err := proto.MarshalOptions{}.MarshalAppend(content, saved)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content[len(stateFormat)+sha256.Size:])
	copy(content[len(stateFormat):], sum[:])
	return content, nil
}

func decodeState(content []byte) (*waypointv1.SavedConfiguration, error) {
	rest, ok := bytes.CutPrefix(content, []byte(stateFormat))
	if !ok {
		return nil, fmt.Errorf("%w: it was not written by this version of the program", errBadState)
	}
	if len(rest) < sha256.Size {
		return nil, fmt.Errorf("%w: it is cut short", errBadState)
	}
	sum, body := [sha256.Size]byte(rest), rest[sha256.Size:]
	if sha256.Sum256(body) != sum {
		return nil, fmt.Errorf("%w: its checksum is wrong", errBadState)
	}
	saved := new(waypointv1.SavedConfiguration)
	if err := proto.Unmarshal(body, saved); err != nil {
		return nil, fmt.Errorf("%w: %w", errBadState, err)
	}
	return saved, nil
}

// writeFile replaces a file as a whole, for good: what is there after a crash is
// the old content or the new. There is one writer, so that a part that was left
// behind is written over.
func writeFile(path string, content []byte) error {
	part, err := os.OpenFile(path+".part", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = part.Write(content)
	if err := errors.Join(err, part.Sync(), part.Close()); err != nil {
		return err
	}
	if err := os.Rename(part.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
