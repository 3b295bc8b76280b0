// Loads models into onnxruntime-web (wasm, one thread) and runs them: requests on stdin, answers on stdout.
//
// node runner.mjs FOLDER_OF_THE_PACKAGE

import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { LENGTHS, framed, refused, run } from "./tensors.mjs";

const folder = process.argv[2];
const answers = fs.openSync("/dev/fd/1", "w");
console.log = console.info = console.warn = console.error;

const ort = await import(pathToFileURL(path.join(folder, "dist", "ort.node.min.mjs")).href);
ort.env.wasm.numThreads = 1;
ort.env.logLevel = "fatal";
let session = null;

function read(size) {
  const data = Buffer.alloc(size);
  let at = 0;
  while (at < size) {
    const count = fs.readSync(0, data, at, size - at, null);
    if (count === 0) process.exit(0);
    at += count;
  }
  return data;
}

function send(header, blocks = []) {
  for (const data of framed(header, blocks)) {
    let at = 0;
    while (at < data.byteLength) at += fs.writeSync(answers, data, at, data.byteLength - at);
  }
}

async function load(asked) {
  if (session !== null) await session.release();
  session = null;
  const content = asked.model === null ? read(asked.size) : fs.readFileSync(asked.model);
  const base = asked.model === null ? null : path.dirname(asked.model);
  const externalData = base === null ? [] : asked.external.map(
    (name) => ({ path: name, data: new Uint8Array(fs.readFileSync(path.join(base, name))) }));
  const model = new Uint8Array(content.buffer, content.byteOffset, content.byteLength);
  session = await ort.InferenceSession.create(model, { executionProviders: ["wasm"], externalData, logSeverityLevel: 4 });
  return [{ inputs: session.inputNames, outputs: session.outputNames }];
}

for (;;) {
  const size = Number(read(LENGTHS).toString());
  const asked = JSON.parse(read(size).toString());
  try {
    send(...await (asked.feeds === undefined ? load(asked) : run(ort, session, asked, read)));
  } catch (error) {
    send(refused(error));
  }
}
