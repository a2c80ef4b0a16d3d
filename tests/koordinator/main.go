// Command koordinator-oracle answers what the code of Koordinator's scheduler says.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"

	"numa-admission/koordinator/draw"
	"numa-admission/koordinator/record"
	"numa-admission/koordinator/world"
)

const usage = `usage:
  koordinator-oracle generate --seed N --cases M [--first K] [--profile merge|small|gpu8]
  koordinator-oracle judge < cases.jsonl > verdicts.jsonl
`

func main() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "koordinator-oracle:", err)
		os.Exit(1)
	}
}

func run(arguments []string, in io.Reader, out io.Writer) error {
	if len(arguments) == 0 {
		return errors.New("no command\n" + usage)
	}
	buffer := bufio.NewWriterSize(out, 1<<16)
	judge := judge{worlds: map[string]*world.World{}, out: json.NewEncoder(buffer)}
	var err error
	switch arguments[0] {
	case "generate":
		err = judge.generate(arguments[1:])
	case "judge":
		err = judge.read(in)
	default:
		err = fmt.Errorf("unknown command %q\n%s", arguments[0], usage)
	}
	return errors.Join(err, buffer.Flush())
}

// judge answers cases, with one scheduler for each scoring strategy.
type judge struct {
	worlds map[string]*world.World
	out    *json.Encoder
}

func (j *judge) generate(arguments []string) error {
	flags := flag.NewFlagSet("generate", flag.ContinueOnError)
	seed := flags.Uint64("seed", 1, "the same seed draws the same cases")
	cases := flags.Int("cases", 100, "how many")
	first := flags.Int("first", 0, "number of the first case; each case is drawn on its own")
	profile := flags.String("profile", "small", "merge, small or gpu8")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	for number := *first; number < *first+*cases; number++ {
		c, err := draw.Case(*seed, number, *profile)
		if err != nil {
			return err
		}
		if err := j.answer(c); err != nil {
			return err
		}
	}
	return nil
}

func (j *judge) read(in io.Reader) error {
	decoder := json.NewDecoder(in)
	for {
		c := &record.Case{}
		if err := decoder.Decode(c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := j.answer(c); err != nil {
			return err
		}
	}
}

func (j *judge) answer(c *record.Case) error {
	c.Koordinator = record.Version
	if c.Merge != nil {
		if err := world.Merge(c.Merge); err != nil {
			return fmt.Errorf("%s: %w", c.ID, err)
		}
		return j.out.Encode(c)
	}
	w, started := j.worlds[c.Machine.NUMAScoring]
	if !started {
		var err error
		if w, err = world.New(c.Machine.NUMAScoring); err != nil {
			return err
		}
		j.worlds[c.Machine.NUMAScoring] = w
	}
	w.Judge(c)
	return j.out.Encode(c)
}
