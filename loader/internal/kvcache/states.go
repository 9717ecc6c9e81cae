package kvcache

import "strings"

// setStates sets the state of layers that recur, or notes that the configuration does not tell its size. It also notes a configuration
// that has the size and no layer that recurs: Jamba's leaves out which do, if they are those of its class.
func (q *questions) setStates() {
	n := 0
	for i := range q.plan.Layers {
		if q.plan.Layers[i].Kind.recurs() {
			n++
		}
	}
	values, names := q.state()
	if values >= most {
		q.oddSizes = append(q.oddSizes, names...)
	}
	switch {
	case n == 0:
		if values > 0 && q.assumesAttention {
			q.unknown("kv_bytes", "the configuration has the size of a recurrent state, and does not say which layers recur: none is counted so")
		}
		return
	case len(q.oddSizes) > 0:
		q.unknown("state_bytes", "the configuration gives the state of recurrent layers (%d) a size that none has: %s", n, strings.Join(q.oddSizes, ", "))
		return
	case values == 0:
		q.unknown("state_bytes", "the configuration does not tell how large the state of recurrent layers (%d) is", n)
		return
	}
	for i := range q.plan.Layers {
		if l := &q.plan.Layers[i]; l.Kind.recurs() {
			l.State = values
		}
	}
}

// state returns how many values the state of one recurrent layer has: the inputs that its convolution still needs, and what it sums up.
// It returns 0 if the configuration lacks a number, else also the names of the numbers. Those that are none of a state's are in oddSizes
// afterwards.
func (q *questions) state() (values uint64, names []string) {
	for _, rule := range []struct {
		names []string
		state func(n []int) uint64
	}{
		// GGUF.
		{[]string{"*.wkv.head_size", "hidden_size"}, func(n []int) uint64 {
			shifts, ok := q.size(0, "*.token_shift_count")
			if !ok {
				shifts = 2
			}
			return mul(n[1], n[0]+shifts)
		}},
		{[]string{"*.shortconv.l_cache", "hidden_size"}, func(n []int) uint64 { return mul(n[0]-1, n[1]) }},
		{[]string{"*.kda.head_dim", "num_attention_heads", "*.ssm.conv_kernel"}, func(n []int) uint64 { return kda(n[1], n[0], n[2]) }},
		{[]string{"*.ssm.conv_kernel", "*.ssm.inner_size", "*.ssm.state_size"}, func(n []int) uint64 {
			groups, _ := q.size(0, "*.ssm.group_count")
			return ssm(n[0], n[1], groups, n[2])
		}},
		// Gated delta networks: Qwen3-Next.
		{[]string{"linear_conv_kernel_dim", "linear_num_key_heads", "linear_key_head_dim", "linear_num_value_heads", "linear_value_head_dim"}, func(n []int) uint64 {
			return Add(Mul(uint64(max(n[0]-1, 0)), Add(mul(2, n[1], n[2]), mul(n[3], n[4]))), mul(n[3], n[2], n[4]))
		}},
		// Mamba-2: Granite 4, Bamba, Falcon-H1, then Nemotron-H, Mamba-2 itself and Zamba2.
		{[]string{"mamba_d_conv", "mamba_n_heads", "mamba_n_groups", "mamba_d_state"}, func(n []int) uint64 {
			return ssm(n[0], q.inner(n[1], "mamba_d_head"), n[2], n[3])
		}},
		{[]string{"conv_kernel", "mamba_num_heads", "n_groups", "ssm_state_size"}, func(n []int) uint64 {
			return ssm(n[0], q.inner(n[1], "mamba_head_dim"), n[2], n[3])
		}},
		{[]string{"conv_kernel", "num_heads", "n_groups", "state_size"}, func(n []int) uint64 {
			return ssm(n[0], q.inner(n[1], "head_dim"), n[2], n[3])
		}},
		{[]string{"mamba_d_conv", "n_mamba_heads", "mamba_ngroups", "mamba_d_state"}, func(n []int) uint64 {
			return ssm(n[0], q.inner(0, ""), n[2], n[3])
		}},
		// Mamba: Jamba, then Mamba itself.
		{[]string{"mamba_d_conv", "mamba_expand", "mamba_d_state"}, func(n []int) uint64 {
			return ssm(n[0], q.inner(0, ""), 0, n[2])
		}},
		{[]string{"conv_kernel", "intermediate_size", "state_size"}, func(n []int) uint64 { return ssm(n[0], n[1], 0, n[2]) }},
		// Short convolutions (LFM2) and RecurrentGemma.
		{[]string{"conv_L_cache", "hidden_size"}, func(n []int) uint64 { return mul(n[0]-1, n[1]) }},
		{[]string{"conv1d_width", "lru_width"}, func(n []int) uint64 { return mul(n[0], n[1]) }},
	} {
		if n, found := q.sizes(rule.names...); found {
			return rule.state(n), rule.names
		}
	}
	if o, found := q.object("linear_attn_config"); found {
		names = []string{"num_heads", "head_dim", "short_conv_kernel_size"}
		if n, ok := o.sizes(names...); ok {
			q.oddSizes = o.oddSizes
			return kda(n[0], n[1], n[2]), names
		}
	}
	if n, ok := q.sizes("num_attention_heads"); ok && strings.HasPrefix(q.arch, "minimax") {
		size, ok := q.size(1, "head_dim")
		if !ok {
			hidden, _ := q.size(1, "hidden_size")
			size = hidden / n[0]
		}
		return mul(n[0], size, size), []string{"num_attention_heads", "head_dim"}
	}
	return 0, nil
}

// sizes returns the numbers under names, each as size does. ok is false if one is missing.
func (q *questions) sizes(names ...string) (list []int, ok bool) {
	for _, name := range names {
		if !q.has(name) {
			return nil, false
		}
	}
	for _, name := range names {
		n, _ := q.size(1, name)
		list = append(list, n)
	}
	return list, true
}

// size returns the number under name. If it is less than least, or no number that a configuration may have, it is least, and in oddSizes.
// ok is false without a value.
func (q *questions) size(least int, name string) (n int, ok bool) {
	if !q.has(name) {
		return 0, false
	}
	if n, ok = q.int(name); !ok || n < least {
		q.oddSizes = append(q.oddSizes, q.in(name))
		n = least
	}
	return n, true
}

// inner returns how many channels a Mamba layer has: mamba_d_ssm, else heads times the number called size, else hidden_size times
// mamba_expand or expand. It returns 0 if the configuration lacks them. A number of channels that no layer has is noted in oddSizes.
func (q *questions) inner(heads int, size string) int {
	if n, ok := q.size(1, "mamba_d_ssm"); ok {
		return n
	}
	n, ok := q.size(1, size)
	if !ok {
		size = "hidden_size"
		n, _ = q.size(1, size)
		if heads, ok = q.size(1, "mamba_expand"); !ok {
			heads, _ = q.size(1, "expand")
		}
	}
	channels := product(heads, n)
	if channels == most {
		q.oddSizes = append(q.oddSizes, size)
	}
	return channels
}

// ssm returns the values of a state space layer: conv−1 inputs of its convolution, and state values for each channel. It returns 0 without
// channels.
func ssm(conv, inner, groups, state int) uint64 {
	if inner == 0 {
		return 0
	}
	return Add(Mul(uint64(max(conv-1, 0)), Add(uint64(inner), mul(2, groups, state))), mul(inner, state))
}

// kda returns the values of a layer of Kimi's delta attention: inputs of three convolutions, and a matrix for each head.
func kda(heads, size, conv int) uint64 {
	return Add(mul(3, conv-1, heads, size), mul(heads, size, size))
}

// mul returns the product of numbers, where negative ones count as 0.
func mul(numbers ...int) uint64 {
	product := uint64(1)
	for _, n := range numbers {
		product = Mul(product, uint64(max(n, 0)))
	}
	return product
}
