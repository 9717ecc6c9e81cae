// Package loader opens model weight files and hands out their tensors without copying a
// byte.
//
//	m, err := loader.Open("model.safetensors", nil)
//	if err != nil { … }
//	defer m.Close()
//	t, err := m.Tensor("encoder.layer.0.attention.self.query.weight")
//	w, err := t.Float32s() // a view of the mapped file
//
// [Open] costs the file's index, not its size: tensor data is not read until it is
// touched. Everything here is safe for concurrent use.
//
// # Lifetimes
//
// A slice from [Tensor.Bytes], [View] or [Tensor.Float32s] may be the file itself, mapped
// read-only: writing to it faults. It is valid while the model is open or any lease of the model
// is held, however it was taken. [Model.Close] never waits: the mapping goes with the last
// [Lease] and the last running call.
//
// A server that swaps models while requests run binds its weights once per model: it looks the
// tensors up and keeps their slices. A request takes a lease, uses the slices and releases the
// lease. It finishes on the model that it began with, though that is closed meanwhile. Methods of
// bound tensors work while any lease of the model is held. [Lease.Of] returns tensors that work
// through one lease, and whose calls end with its context. [Current] swaps models and takes leases
// of whichever is current.
//
// [Model.Done] tells when a closed model is gone. Readers handed to [OpenReaderAt] are the caller's,
// and may be closed then. [Model.Stats] counts the leases of a model that drains. With
// [Options].TraceLeases, [Model.HeldLeases] lists who has not released.
//
// After Close, every method of the model returns [ErrClosed]. Methods of tensors taken from the model work until its last
// lease is released, methods of a lease and of its tensors until its release. Names, shapes and
// metadata already handed out are memory of their own and stay valid.
//
// A tensor that is compressed, packed or not aligned for its type cannot be viewed in place
// ([Tensor.ZeroCopy] tells). The first call makes a copy on the heap. The model's cache keeps the
// copy within its budget, and a lease pins it (see [Lease]). The copy is read-only too and shared
// by all who ask. Evicted, it lives on for as long as somebody holds it. Rows, ranges and Values of
// a compressed tensor make no such copy: they expand the blocks of 64 KiB that they need, into the
// caller's memory.
//
// # Models in several files
//
// An APR2 manifest, a SafeTensors index or any one file of a GGUF split opens as one model. So does
// a directory with one model in it ([Open] says which that is); package shard has their rules.
// Opening reads the manifest and each shard's index. A shard is mapped when one of its tensors is
// first touched, and from then on until the model's end: views of different shards have the same
// lifetime. Only the first touch may fail, because the file is gone or is no longer the one whose
// index was read ([ErrChanged]). The next touch then tries again. Descriptors do not stay open, but for
// the directory's and, with [Options.NoMap], the descriptors of up to 64 files.
//
// # Quantized checkpoints
//
// A checkpoint may store a weight as codes, scales and more. The model has it as one tensor, with the
// true shape and values, under the name of the weight ([Tensor.Scheme], [Tensor.Parts]). Parts are
// found by their own names. A row or a range reads the codes and scales that it needs. Scales
// that have to be put in order first, or that are fetched again and again, are cached.
// Codes whose scheme is not decoded, or whose companions do not fit, have bytes and no values:
// [Tensor.Problem] says why.
//
// A stored tensor is one as its file has it. [Tensor.Stored] returns that behind a tensor, with the dtype of a weight's codes.
// [Lease.StoredTensors] lists all, and [Options].Stored opens a model that has no others.
//
// # Streaming
//
// [OpenReaderAt] opens a model that is not a file here: package httprange reads one from a web server. Nothing is read that is
// not asked for, and every tensor is a copy, in the cache or in the caller's memory. Memory beyond 16 MiB for a tensor is
// taken once its last byte has been read, and then as the others arrive. A server that claims more than it has makes a reader
// take at most five times the bytes that it sends. Bytes, views and Float32s of one tensor fetch that tensor, rows and ranges
// only the bytes that they need. [Model.Warm] fetches several tensors into the cache at once, neighbours by one request.
// Reading them makes no request while they stay there (but see What bounds the heap): as long as Options.CacheBytes allows, or
// until the release of the lease that [Lease.Warm] pinned them in.
//
// Bytes that come from elsewhere may never come. Reads through a lease of [Model.AcquireContext]
// end with its context. [Model.Close] ends the reads that run outside of leases, and the release
// of the last lease the rest: their methods return ErrClosed.
//
// # Memory, ahead of time and afterwards
//
// [Model.Warm] reads tensors in an order, so that touching them does not wait: tensors of a mapped
// model into the page cache and the process's page table, any others into the model's cache. The
// kernel may drop pages again, and the cache evicts tensors that no lease has pinned. Neither
// changes the bytes of a view.
//
// [Model.Evict] is the opposite, for weights that have been copied elsewhere. Their pages leave
// the process, and the cache forgets tensors that no lease has pinned. It ends no lifetime. A
// view of the mapping reads the file again when it is touched, and a copy lives on for as long
// as somebody holds it.
//
// [Model.Stream] hands tensors out in buffers of the caller's, such as pinned memory of a device. Readers fill them by large
// reads, past the page cache if the bytes are not in it, and nothing stays behind. [Model.Region] is for devices that
// read the mapping itself.
//
// # What bounds the heap
//
// A model's copies and values take [Options].CacheBytes at most, plus the tensors that leases pin
// beyond that, plus tensors being made. A lease pins each tensor that it has handed out as a copy or as
// values. One request that calls Float32s for every tensor of a quantized model therefore
// holds all of them as float32 until its release, whatever CacheBytes says. Dequantize and
// DequantizeRows expand into the caller's memory and pin nothing. A copy that was evicted stays in
// the heap as long as somebody holds it.
//
// A tensor is cached once: its stored elements leave the cache when its values come. Values make
// it count as there for Warm, which does not fetch the elements again. Reading values then makes no
// request, but Bytes, ReadAt and views of that tensor do. [Model.Stats] counts the cache. The cache of a
// model that goes is garbage, which the next collection of the process frees: see [Hooks].
//
// # Callbacks
//
// Progress functions, readers and writers of the caller's may be called by other goroutines.
// If one panics there, or calls runtime.Goexit, so does the method that runs it, in the
// caller's goroutine and with the same value.
//
// Of several callers who want one tensor's copy or values, one makes them and the others wait. If that one's
// context ends, or a callback of its reader panics, another begins anew. A caller whose context has ended
// leaves at once, whether it waits or reads.
//
// # How a call reads
//
// Each method below is a chain of calls down to a file, by which every byte leaves, or to the package that computes or decodes.
// Tensor.call holds the lease, turns faults into errors and names the tensor in them; methods of models and leases have
// whileOpen or readWhileOpen in place of it. The types behind it are in loader/internal/content, values and file.
// Functions without a name are left out, and what runs them, such as parallel.Each. With the method itself a chain has at most
// eight calls, which TestCallChains holds.
//
//	bytes             Stored.ReadAt → File.ReadAt, below LZ4.ReadAt for compressed tensors
//	values            Typed.Read → bytes, or Grouped.Read → bytes for codes of quantized weights
//	ReadAt            call → content.Read → bytes
//	View              call → Cached.All → Cache.Get → bytes
//	Bytes             View → call → Cached.All → Cache.Get → bytes
//	Float32s          call → Cached.All → Cache.Get → values
//	WriteTo           call → content.Write → bytes
//	WriteDecrypted    call → content.Write → bytes
//	WriteDecrypted    call → LZ4.WriteStored → bytes
//	WriteAs           call → content.Write → encoded.ReadAt → values
//	ReadAs            call → values.ReadEncoded → encoded.ReadAt → values
//	Dequantize        call → values
//	DequantizeRows    call → values
//	DequantizeRange   call → values
//	Values            call → values
//	Slice.Bytes       call → readGroups → readGroup → content.Read → bytes
//	Slice.Dequantize  call → readGroups → readGroup → values
//	MatVec            call → multiply → product.takeRows → bytes
//	MatMul            call → multiply → product.takeRows → bytes
//	metadata          file.parseMetadata → parsedOnce.parse → the format's Metadata
//	Scale             call → file.scale → metadata
//	Model.Metadata    readWhileOpen → Model.metadataKeys → Model.parseMetadata → metadata
//	Model.Config      readWhileOpen → Model.configuration → Model.parseMetadata → metadata
//	Model.Footprint   readWhileOpen → Model.footprint → Model.configuration → Model.parseMetadata → metadata
//	Model.ReadBeside  readWhileOpen → source.readBeside → input.Slice → File.View, or File.Copy
//	Model.Region      readWhileOpen → file.region → File.View
//	Model.VerifyTrust whileOpen → readWhileOpen → Model.verifyTrust → File.Ensure
//	VerifyFile        file.verifyBy → File.Trust, and guardFile → File.Ensure
//	Lease.Summary     readWhileOpen → the format's Summary
//	Lease.Graph       readWhileOpen → the format's Graph
//	Model.ReadFileAt  whileOpen → readWhileOpen → File.ReadAt
//	Model.Warm        warm → readWhileOpen → warming.fetch → file.fetch → File.ReadAt
//	Model.Warm        warm → readWhileOpen → Cached.All → Cache.Get → warmingContent.ReadAt → bytes
//	Model.Warm        warm → readWhileOpen → elementsToWarm → content.Bytes → warmingContent.ReadAt → bytes
//	Model.Stream      stream → readWhileOpen → run → fillSlot → readLoad → readRange → preads, or File.ReadAt, or a copy of File.View
//	Model.Verify      readWhileOpen → Model.verify → verifier.audit → verifier.auditFile → File.Probe
//	Model.Verify      readWhileOpen → Model.verify → verifier.computeSums → sumReader.readAll → file.view → File.ReadAt
//	Model.Verify      readWhileOpen → Model.verify → verifier.readCoded → verifier.readElements → bytes
//
// If the file is mapped, Cached.View → Stored.View → File.View → Mapping.Slice takes the place of bytes, and of Cached.All and all that
// follows. Rows that are in memory are multiplied by Team.Run → takeRows → dot.Mat. Rows of a type without a kernel are values. Warm of
// mapped tensors is warming.fillPages → File.Warm → Mapping.Populate: one request of Warm has several small tensors or a part of a large
// one, and elementsToWarm reads all of a compressed one. Verify calls the format's Audit too.
//
// Some calls read more than the bytes of their elements, by chains that begin below them:
//
//   - Grouped.Read → weight.Read → Form.ReadScales → the scheme's readScales → partReader.Floats → Typed.Read → bytes: scales of a range of a
//     quantized weight. DequantizeRows is eleven calls deep then, as TestCallChainsOfWeights holds. Scales in place are read so for each row.
//   - Grouped.Read → weight.All → Cache.Get → weight.readAllScales → Form.ReadScales → …: all scales of a weight, which the model's cache has
//     from then on. The first DequantizeRows is fifteen calls deep.
//   - LZ4.ReadAt → Table.FindBlocks → bytes: where blocks begin, once.
//   - Cached.All → Cache.Get → Packed.unpackAll → content.Bytes → bytes: a tensor that can only be unpacked as a whole, until it is evicted.
//   - Typed.codec → Model.codecOf → file.scale → metadata, or content.Read → bytes: a scale in metadata or in a tensor's head, once.
//
// # Files that change underneath
//
// A mapped file that shrinks turns a read past its new end into SIGBUS. Methods that read
// on the caller's behalf return an error that wraps [mmapio.ErrFault]. Loops of your
// own over a view get the same inside [mmapio.Guard]. Neither helps C, nor assembly that calls
// from frames without a pointer map, as some compressors do: hand them a copy ([Tensor.ReadAt]).
// A writer that [Tensor.WriteTo] is given may be handed the mapping.
//
// The page that the new end is in does not fault: its lost bytes read as zeros. Copies for the
// cache, and reads of 16 MiB and more at once, therefore ask for the file's size when they are done
// ([ErrChanged]). Shorter reads into the caller's memory do not.
// [Model.Changed] compares size, times and inode of every file with what was opened. [Model.Verify],
// [Model.Warm] and packages survey and convert ask it and fail if a file has changed under them.
package loader
